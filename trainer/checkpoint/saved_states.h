#ifndef MOONRING_TRAINER_CHECKPOINT_SAVED_STATES_H_
#define MOONRING_TRAINER_CHECKPOINT_SAVED_STATES_H_

// The states of a run in a checkpoint: for each trainable parameter, this rank's shard
// (zero_cost.h) of the master weight and of the optimizer state, by name.
//
//   weight/NAME                                   [shard]
//   exp_avg/NAME, exp_avg_sq/NAME, step/NAME      [shard], [shard], [] (the optimizer's names)
//   exp_avg_scale/NAME, exp_avg_sq_scale/NAME     if the two above are 8-bit codes: [blocks]
//                                                 (moment.h)
//   momentum/NAME                                 [1, ...]: a tensor that is not sharded, from the
//                                                 rank that has it (rule_optimizer.h)
//
// If each rank keeps different rows of a parameter (experts sharded over ranks), the rows of all
// ranks are joined first. The parameter is saved as if it were not split, in shards of zero_cost.h,
// and can be loaded with any number of expert ranks. Its 8-bit codes are saved decoded.
//
// States saved by P ranks can be loaded by any number of ranks: the section of a weight that a rank
// needs is assembled from the P shards. 8-bit codes are then decoded, because blocks start at the
// beginning of a shard.

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/sharding/states.h"

namespace moonring::trainer {

using StateTensors = std::map<std::string, at::Tensor>;

// Elements [begin, begin + count) of a weight of `numel` elements, assembled from the shards that
// each rank saved under a key. Undefined if there are none. INVALID_ARGUMENT if a shard is missing
// or has another size.
absl::StatusOr<at::Tensor> SavedPart(const std::vector<StateTensors>& saved, const std::string& key,
                                     int64_t numel, int64_t begin, int64_t count);

// Returns the live tensors, not copies, except for joined rows of experts, which are copies on the
// host. Returns an empty map if this rank does not save (`keeps` is false). A collective of all
// ranks.
absl::StatusOr<StateTensors> SaveStates(const States& states, const Optimizer& optimizer,
                                        bool keeps = true);

// Restores the states saved by each of P ranks, in rank order, for the same parameters; the tensors
// may be memory-mapped. A collective of all ranks, followed by Publish(). INVALID_ARGUMENT if
// names, shapes or dtypes differ; after an error, some weights may already have been written.
absl::Status LoadStates(States& states, Optimizer& optimizer,
                        const std::vector<StateTensors>& saved);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_CHECKPOINT_SAVED_STATES_H_
