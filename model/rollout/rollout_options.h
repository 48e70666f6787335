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
#include "mixers/over_ranks/plan_mixing.h"
#include "model/sampling.h"
#include "model/stream_hooks.h"
#include "model/transformer.h"

namespace moonring::model {

struct RolloutPrompt {
  std::vector<int64_t> ids;  // at least one
  uint64_t key = 0;          // for random draws: for example an example's number
};

// Ranks that share every sequence, and call with the same prompts and options.
struct SpreadSequences {
  std::shared_ptr<comm::Communicator> ranks;
  std::shared_ptr<const attention::Attention> attention;  // over those ranks
  mixers::MixingOptions mixing;
};

struct RolloutOptions {
  SamplingOptions sampling;
  int64_t answers = 1;     // per prompt
  int64_t sequences = 32;  // maximum number of answers that run at a time
  bool keep_casts = true;
  // Ranks that shard the weights, each of which calls with its own prompts. All run as many
  // forwards as the rank that needs most, because a lease may be collective. Costs one all-reduce
  // of 16 bytes per forward. Null: only this rank.
  std::shared_ptr<comm::Communicator> lockstep;
  std::optional<SpreadSequences> spread;  // absent, or with one rank: sequences are not shared
  StreamHook after;                       // called for all rows: of prompts and of answers
};

// INVALID_ARGUMENT for invalid options, and for a prompt that is empty, has ids outside the
// vocabulary or is longer than the model's number of positions.
absl::Status Validate(const RolloutOptions& options, absl::Span<const RolloutPrompt> prompts,
                      const Transformer& model);

// INVALID_ARGUMENT on all ranks if ranks that share every sequence were given different prompts or
// options. Collective over those ranks; one all-reduce of 16 bytes.
absl::Status CheckSame(comm::Communicator& ranks, absl::Span<const RolloutPrompt> prompts,
                       const RolloutOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_
