// Which examples each optimizer step takes: a pure function of (seed, epoch, index) and of how many
// a step takes.
//
//   examples a step = per_device_train_batch_size x gradient_accumulation_steps x dp
//   steps an epoch  = ceil(n / examples a step)  [ = ceil(ceil(n / (batch x dp)) / accumulation) ]
//   with drop_last    n is rounded down to whole batches of batch x dp first; where there is none,
//                     it is not
//
// A step never crosses an epoch: the last one of an epoch is short, and no example is repeated to
// fill it. Nothing here depends on sequence parallelism or on how a step is packed. Epochs follow
// one another until total_steps, or for ever.
//
// A state holds the place as (epoch, examples taken in it); it may be loaded under another number
// of examples a step where the place is also a border of those steps and the order does not depend
// on that number (as with lengths it does). Fails in Create for counts below 1.
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
  int64_t step = 0;               // in the epoch
  bool last = false;              // of the epoch
  std::vector<int64_t> examples;  // indices into the data set
};

struct StepBatchesOptions {
  int64_t examples = 0;  // n
  int64_t examples_per_step = 0;
  int64_t seed = 42;
  bool shuffle = true;
  std::optional<int64_t> total_steps;  // since the very first; Next() gives nothing after them
  bool drop_last = false;  // leave out what of an epoch fills no batch of `batch` examples
  int64_t batch = 1;       // examples_per_step is a number of them
  // Of each example: an epoch's order is put into groups of like lengths then
  // (data/steps/length_groups.h), of batches of examples_per_step. Empty: it is not.
  std::vector<int64_t> lengths;
  // In place of seed, shuffle and lengths: the order of each epoch, all of 0 .. n-1. Fails where an
  // epoch is wanted that has none.
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
  absl::Status FindOrder();  // order_ of epoch_
  // The size of the batches by which lengths order the examples; 0: they do not.
  int64_t grouped() const { return options_.lengths.empty() ? 0 : options_.examples_per_step; }

  StepBatchesOptions options_;
  int64_t of_epoch_;  // examples that an epoch takes
  int64_t epoch_ = 0;
  int64_t taken_ = 0;           // in the epoch, below n
  std::vector<int64_t> order_;  // of epoch_; empty until it is asked for
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_STEP_BATCHES_H_
