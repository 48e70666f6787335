// The examples of each optimizer step. They depend only on (seed, epoch, index) and on the number
// of examples per step.
//
//   examples per step = per_device_train_batch_size x gradient_accumulation_steps x dp
//   steps per epoch   = ceil(n / examples per step)
//                       [ = ceil(ceil(n / (batch x dp)) / accumulation) ]
//   with drop_last      n is first rounded down to whole batches of batch x dp, unless there is
//                       none
//
// A step never crosses the end of an epoch: the last step of an epoch is shorter, and no example is
// repeated to fill it. Nothing here depends on sequence parallelism or on the packing. Epochs
// repeat until total_steps, or without end.
//
// The saved state is the position: the epoch, and the number of its examples that were used. It can
// be loaded with another number of examples per step if the position is a step boundary there too.
// This is not possible with `lengths`, because the order then depends on the number of examples per
// step. Create fails for counts below 1.
#ifndef MOONRING_DATA_STEPS_STEP_BATCHES_H_
#define MOONRING_DATA_STEPS_STEP_BATCHES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/pipeline/source.h"

namespace moonring::data {

struct StepBatch {
  int64_t epoch = 0;
  int64_t step = 0;               // index in the epoch
  bool last = false;              // whether this is the epoch's last step
  std::vector<int64_t> examples;  // indices into the data set
};

struct StepBatchesOptions {
  int64_t examples = 0;  // n
  int64_t examples_per_step = 0;
  int64_t seed = 42;
  bool shuffle = true;
  // number of steps from the beginning of training, after which Next() returns nullopt
  std::optional<int64_t> total_steps;
  bool drop_last = false;  // skip the examples at the end of an epoch that do not fill a batch
  int64_t batch = 1;       // examples_per_step is a multiple of it
  // The length of each example. If not empty, an epoch's order is grouped by length
  // (data/steps/length_groups.h), in batches of examples_per_step.
  std::vector<int64_t> lengths;
  // The order of each epoch, a permutation of 0 .. n-1; replaces seed, shuffle and lengths. Next()
  // fails for an epoch beyond the list.
  std::vector<std::vector<int64_t>> orders;
};

class StepBatches final : public Source<StepBatch> {
 public:
  static absl::StatusOr<std::unique_ptr<StepBatches>> Create(const StepBatchesOptions& options);

  const StepBatchesOptions& options() const { return options_; }
  int64_t steps_per_epoch() const;

  absl::StatusOr<std::optional<StepBatch>> Next() override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view state) override;

 private:
  explicit StepBatches(const StepBatchesOptions& options);
  absl::Status FindOrder();  // sets order_ for epoch_
  // The batch size for grouping by length; 0: no grouping.
  int64_t grouped() const { return options_.lengths.empty() ? 0 : options_.examples_per_step; }

  StepBatchesOptions options_;
  int64_t of_epoch_;  // number of examples that an epoch uses
  int64_t epoch_ = 0;
  int64_t taken_ = 0;           // examples used in the epoch, below n
  std::vector<int64_t> order_;  // order of epoch_; empty until it is needed
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STEP_BATCHES_H_
