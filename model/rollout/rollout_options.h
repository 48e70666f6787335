#ifndef MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_
#define MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_

// What a rollout (rollout.h) is given, and what of it is refused.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "attention/attention.h"
#include "comm/communicator.h"
#include "mixers/plan_mixing.h"
#include "model/sampling.h"
#include "model/stream_hooks.h"
#include "model/transformer.h"

namespace moonring::model {

struct RolloutPrompt {
  std::vector<int64_t> ids;  // one at least
  uint64_t key = 0;          // by which it draws: an example's number, say
};

// Ranks that share every sequence, and call with the same prompts and options.
struct SpreadSequences {
  std::shared_ptr<comm::Communicator> ranks;
  std::shared_ptr<const attention::Attention> attention;  // on those
  mixers::MixingOptions mixing;
};

struct RolloutOptions {
  SamplingOptions sampling;
  int64_t answers = 1;     // to each prompt
  int64_t sequences = 32;  // answers that run at a time
  bool keep_casts = true;
  // Ranks that hold weights together, each of which calls with prompts of its own: all run as many
  // forwards as the one that runs most, for a lease may be a call of all. One all-reduce of 16
  // bytes a forward. Null: this rank alone.
  std::shared_ptr<comm::Communicator> lockstep;
  std::optional<SpreadSequences> spread;  // absent, or of one rank: sequences are this rank's own
  StreamHook after;                       // acts on all rows that run: of prompts and of answers
};

// INVALID_ARGUMENT for bad options, a prompt of no ids, of ids outside the vocabulary or longer
// than the model has positions for.
absl::Status Validate(const RolloutOptions& options, absl::Span<const RolloutPrompt> prompts,
                      const Transformer& model);

// INVALID_ARGUMENT, on all of them, where ranks that share every sequence were given other prompts
// or options. Collective over those; one all-reduce of 16 bytes.
absl::Status CheckSame(comm::Communicator& ranks, absl::Span<const RolloutPrompt> prompts,
                       const RolloutOptions& options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_ROLLOUT_ROLLOUT_OPTIONS_H_
