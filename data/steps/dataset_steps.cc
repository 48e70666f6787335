#include "data/steps/dataset_steps.h"

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::data {

absl::StatusOr<std::unique_ptr<DatasetSteps>> DatasetSteps::Create(
    std::shared_ptr<const std::vector<Example>> dataset, std::unique_ptr<StepBatches> batches) {
  TORCH_CHECK(dataset != nullptr && batches != nullptr,
              "dataset_steps: expected a data set and step batches");
  if (batches->options().examples != static_cast<int64_t>(dataset->size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset_steps: step batches of ", batches->options().examples,
                     " examples over a data set of ", dataset->size()));
  }
  const auto same_kind = [](const Example& a, const Example& b) {
    // neat_packing rows may differ in their number of documents
    const bool rows = a.padding.has_value();
    return rows == b.padding.has_value() && (rows || a.documents.size() == b.documents.size()) &&
           a.desirable.has_value() == b.desirable.has_value();
  };
  for (const Example& example : *dataset) {
    TORCH_CHECK(same_kind(example, dataset->front()),
                "dataset_steps: examples of one data set must be of one kind");
  }
  return std::unique_ptr<DatasetSteps>(new DatasetSteps(std::move(dataset), std::move(batches)));
}

absl::StatusOr<std::optional<StepExamples>> DatasetSteps::Next() {
  ASSIGN_OR_RETURN(std::optional<StepBatch> batch, batches_->Next());
  if (!batch.has_value()) return std::nullopt;
  StepExamples step{.batch = *std::move(batch)};
  for (const int64_t index : step.batch.examples)
    step.examples.emplace_back(dataset_, &(*dataset_)[index]);
  return step;
}

}  // namespace moonring::data
