#ifndef MOONRING_MODEL_ROLLOUT_DECISIONS_H_
#define MOONRING_MODEL_ROLLOUT_DECISIONS_H_

// The decisions of a rollout: each answer's next token, whether the token ends the answer, the
// tokens with which a caller continues an answer, and the prompts that arrive meanwhile. Ranks that
// share every sequence use the decisions of the first of them, because their logits may differ in
// the last bit, and because a caller's function (a tool, a client's request) need not give the same
// result twice. So the caller's functions run on that rank only.
//
// Cost with P ranks: Broadcasts of 24 bytes per token, 16 more for each of its most likely ids, 8
// bytes per turn, per given token and per token of an arriving prompt, and 8 bytes per forward if
// prompts may arrive.

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
#include "model/transformer.h"

namespace moonring::model {

// An answer whose next token is to be chosen from `logits_V`.
struct Undecided {
  OpenAnswer answer;
  const RolloutPrompt* prompt = nullptr;
  at::Tensor logits_V;
};

struct Decision {
  Choice choice;
  bool stopped = false;    // the token ends the turn
  bool cancelled = false;  // on_token ended the answer
};

class Decisions {
 public:
  // Both must outlive this object.
  Decisions(const RolloutOptions& options, const Transformer& model);

  // Chooses the next token of each answer. Throws if a hook fails; the other ranks then throw
  // ABORTED.
  std::vector<Decision> Tokens(absl::Span<const Undecided> of) const;

  // The tokens that follow each of `answers`, whose turns have ended; nullopt: the answer is
  // finished. Throws if RolloutOptions::next_turn fails or returns an id outside the vocabulary.
  std::vector<std::optional<std::vector<int64_t>>> Turns(
      absl::Span<const OpenAnswer> answers) const;

  // The prompts that RolloutOptions::arrivals returns. On ranks after the first one they have only
  // `ids`, `answers`, `top` and max_new_tokens. Throws if the function fails or if a prompt is
  // invalid.
  std::vector<RolloutPrompt> Arrivals() const;

  // Calls `call` on the first rank. Throws on all ranks if it fails.
  void OnFirstRank(absl::FunctionRef<void()> call) const;

 private:
  std::vector<Decision> TokensHere(absl::Span<const Undecided> of) const;
  bool EndsTurn(const Undecided& of, int64_t id) const;
  // The numbers that `decide` returns on the first rank. `decide` is called there only.
  std::vector<double> OfFirstRank(absl::FunctionRef<std::vector<double>()> decide) const;

  const RolloutOptions& options_;
  const Transformer& model_;
  comm::Communicator* ranks_ = nullptr;  // null: sequences are not shared between ranks
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_DECISIONS_H_
