#ifndef MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_
#define MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_

// Inputs of a rollout (rollout.h), and their checks.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "attention/attention.h"
#include "comm/communicator.h"
#include "mixers/over_ranks/mixing_planner.h"
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
  SamplingOptions sampling;
  int64_t answers = 1;     // per prompt
  int64_t sequences = 32;  // maximum number of answers generated at a time
  bool keep_casts = true;
  // Ranks that shard the weights; each calls Rollout with its own prompts. All of them run as many
  // forwards as the rank that needs most, because gathering a sharded weight is a collective call.
  // Costs one all-reduce of 16 bytes per forward. Null: the weights are not sharded.
  std::shared_ptr<comm::Communicator> lockstep;
  std::optional<SpreadSequences> spread;  // absent, or one rank: sequences are not split
  StreamHook after;                       // called for all rows, of prompts and of answers
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
