#ifndef MOONRING_MODEL_ROLLOUT_DECISIONS_H_
#define MOONRING_MODEL_ROLLOUT_DECISIONS_H_

// The decisions of a rollout: each answer's next token, and the tokens with which a caller
// continues an answer. Ranks that share every sequence use the decisions of the first of them,
// because their logits may differ in the last bit, and because a caller's function (a tool) need
// not give the same result twice. So the caller's functions run on that rank only.
//
// Cost with P ranks: a Broadcast of 16 bytes per token, and of 8 bytes per turn and per given
// token.

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "comm/communicator.h"
#include "model/logits_hook.h"
#include "model/rollout/rollout_options.h"
#include "model/token_choice.h"

namespace moonring::model {

class Decisions {
 public:
  // `options` must outlive this object. `vocabulary`: the number of ids.
  Decisions(const RolloutOptions& options, int64_t vocabulary);

  // Chooses the next token of each of `answers` from its row of `logits`. Throws if the logits hook
  // fails; the other ranks then throw ABORTED.
  std::vector<Choice> Tokens(const std::vector<at::Tensor>& logits_V,
                             absl::Span<const OpenAnswer> answers) const;

  // The tokens that follow each of `answers`, whose turns have ended; nullopt: the answer is
  // finished. Throws if RolloutOptions::next_turn fails or returns an id outside the vocabulary.
  std::vector<std::optional<std::vector<int64_t>>> Turns(
      absl::Span<const OpenAnswer> answers) const;

 private:
  std::vector<Choice> TokensHere(const std::vector<at::Tensor>& logits_V,
                                 absl::Span<const OpenAnswer> answers) const;
  // The tensor that `decide` returns on the first rank. `decide` is called there only.
  at::Tensor OfFirstRank(absl::FunctionRef<at::Tensor()> decide) const;

  const RolloutOptions& options_;
  const int64_t vocabulary_;
  comm::Communicator* ranks_ = nullptr;  // null: sequences are not shared between ranks
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_DECISIONS_H_
