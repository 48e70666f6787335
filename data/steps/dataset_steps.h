// Returns the optimizer steps of a data set in memory, in the order given by StepBatches. SaveState
// saves the state of StepBatches.
#ifndef MOONRING_DATA_STEPS_DATASET_STEPS_H_
#define MOONRING_DATA_STEPS_DATASET_STEPS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/example.h"
#include "data/pipeline/source.h"
#include "data/steps/step_batches.h"
#include "data/steps/step_examples.h"

namespace moonring::data {

class DatasetSteps final : public Source<StepExamples> {
 public:
  // `batches` must have been created for the number of examples in `dataset`; all examples must be
  // of one kind (single documents, pairs, kto examples or packed rows).
  static absl::StatusOr<std::unique_ptr<DatasetSteps>> Create(
      std::shared_ptr<const std::vector<Example>> dataset, std::unique_ptr<StepBatches> batches);

  absl::StatusOr<std::optional<StepExamples>> Next() override;
  std::string SaveState() const override { return batches_->SaveState(); }
  absl::Status LoadState(absl::string_view state) override { return batches_->LoadState(state); }

 private:
  DatasetSteps(std::shared_ptr<const std::vector<Example>> dataset,
               std::unique_ptr<StepBatches> batches)
      : dataset_(std::move(dataset)), batches_(std::move(batches)) {}

  std::shared_ptr<const std::vector<Example>> dataset_;
  std::unique_ptr<StepBatches> batches_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STEPS_DATASET_STEPS_H_
