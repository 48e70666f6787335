#ifndef MOONRING_TRAINER_SAVED_STATES_H_
#define MOONRING_TRAINER_SAVED_STATES_H_

// The states of a run as a checkpoint keeps them: for each parameter that learns this rank's part
// of its master and of what the optimizer holds, as zero_cost.h parts them, by name.
//
//   weight/NAME                                   [part]
//   exp_avg/NAME, exp_avg_sq/NAME, step/NAME      [part], [part], [] (the optimizer's own names)
//   exp_avg_scale/NAME, exp_avg_sq_scale/NAME     where the two above are codes of 8 bits: [blocks]
//                                                 (moment.h)
//   momentum/NAME                                 [1, ...]: a tensor that is not sharded, of the
//                                                 rank that has it (rule_optimizer.h)
//
// Of a parameter of which each rank keeps rows of its own (experts that several ranks share) the
// rows of all are joined first: it is kept as if they were not shared, in parts of zero_cost.h, and
// loaded whoever shares them. Its codes of 8 bits are kept as the numbers that they stand for.
//
// Kept over P ranks they are loaded over any number: what a rank wants of a weight lies, whole or
// in pieces, in the parts of the P. Codes of 8 bits are then read as numbers: blocks begin with a
// shard.

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/optimizer.h"
#include "trainer/states.h"

namespace moonring::trainer {

using StateTensors = std::map<std::string, at::Tensor>;

// Numbers [begin, begin + count) of a weight of `numel`, out of the parts that each rank saved of
// it under a key. Undefined where there are none of them. INVALID_ARGUMENT where a part is missing,
// or of another size.
absl::StatusOr<at::Tensor> SavedPart(const std::vector<StateTensors>& saved, const std::string& key,
                                     int64_t numel, int64_t begin, int64_t count);

// The live tensors, not copies; of rows that were joined, copies on the host. Nothing where this
// rank does not keep them. Every rank must call it.
absl::StatusOr<StateTensors> SaveStates(const States& states, const Optimizer& optimizer,
                                        bool keeps = true);

// Goes on from what each of P ranks saved, in their order, over the same parameters; the tensors
// may be a file's pages. Every rank must call it, then Publish(). INVALID_ARGUMENT where names,
// shapes or dtypes are not those of these states; weights may have been written then.
absl::Status LoadStates(States& states, Optimizer& optimizer,
                        const std::vector<StateTensors>& saved);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SAVED_STATES_H_
