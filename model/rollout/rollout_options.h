#ifndef MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_
#define MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_

// Inputs of a rollout (rollout.h), and their checks.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "attention/attention.h"
#include "comm/communicator.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "model/logits_hook.h"
#include "model/stream_hooks.h"
#include "model/token_choice.h"
#include "model/transformer.h"

namespace moonring::model {

struct RolloutPrompt {
  std::vector<int64_t> ids;  // at least one
  uint64_t key = 0;          // seeds random draws; for example the prompt's index
};

// Ranks among which every sequence is split. All of them must call Rollout with the same prompts
// and options.
struct SpreadSequences {
  std::shared_ptr<comm::Communicator> ranks;
  std::shared_ptr<const attention::Attention> attention;  // communicates with these ranks
  mixers::MixingOptions mixing;
};

struct RolloutOptions {
  SamplingOptions sampling;  // max_new_tokens: all tokens of an answer, the given ones included
  int64_t answers = 1;       // per prompt
  int64_t sequences = 32;    // maximum number of answers generated at a time
  bool keep_casts = true;
  // Ranks that shard the weights; each calls Rollout with its own prompts. All of them run as many
  // forwards as the rank that needs most, because gathering a sharded weight is a collective call.
  // Costs one all-reduce of 16 bytes per forward. Null: the weights are not sharded.
  std::shared_ptr<comm::Communicator> lockstep;
  std::optional<SpreadSequences> spread;  // absent, or one rank: sequences are not split
  StreamHook after;                       // called for all rows, of prompts and of answers
  LogitsHook logits;                      // with `spread` called on the first rank only
  // Whether the turn ends with these tokens, the turn's so far, as if the last one were a stop id.
  std::function<bool(absl::Span<const int64_t> ids)> ends_turn;
  // Called when a turn has ended, with `spread` on the first rank only. Returns the tokens that
  // follow (none: the answer continues at once), or nullopt if the answer is finished.
  std::function<std::optional<std::vector<int64_t>>(const OpenAnswer&)> next_turn;
  int64_t max_turns = 0;  // of an answer; next_turn is not called after the last. 0: no limit
};

// Returns INVALID_ARGUMENT for invalid options, and for a prompt that is empty, has ids outside the
// vocabulary or is longer than the model's number of positions.
absl::Status Validate(const RolloutOptions& options, absl::Span<const RolloutPrompt> prompts,
                      const Transformer& model);

// Checks that all `ranks` were given the same prompts and options; returns INVALID_ARGUMENT on all
// of them if not. Collective over `ranks`; costs one all-reduce of 16 bytes.
absl::Status CheckSame(comm::Communicator& ranks, absl::Span<const RolloutPrompt> prompts,
                       const RolloutOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_
