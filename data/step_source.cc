#include "data/step_source.h"

#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "comm/status_macros.h"

namespace moonring::data {

StepSource::StepSource(std::shared_ptr<const std::vector<Example>> dataset, std::unique_ptr<StepBatches> batches, PackOptions packing, int64_t dp_rank)
    : dataset_(std::move(dataset)), batches_(std::move(batches)), packing_(packing), dp_rank_(dp_rank) {}

absl::StatusOr<std::unique_ptr<StepSource>> StepSource::Create(std::shared_ptr<const std::vector<Example>> dataset, std::unique_ptr<StepBatches> batches,
                                                               PackOptions packing, int64_t dp_rank) {
  TORCH_CHECK(dataset != nullptr && batches != nullptr, "step_source: wanted a data set and step batches");
  if (packing.dp < 1 || dp_rank < 0 || dp_rank >= packing.dp)
    return absl::InvalidArgumentError(absl::StrCat("step_source: no dp rank ", dp_rank, " of ", packing.dp));
  if (packing.micro_batch_tokens < 1)
    return absl::InvalidArgumentError(absl::StrCat("micro_batch_tokens must be at least 1, got ", packing.micro_batch_tokens));
  if (batches->options().examples != static_cast<int64_t>(dataset->size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("step_source: step batches of ", batches->options().examples, " examples over a data set of ", dataset->size()));
  }
  return std::unique_ptr<StepSource>(new StepSource(std::move(dataset), std::move(batches), packing, dp_rank));
}

absl::StatusOr<std::optional<Step>> StepSource::Next() {
  ASSIGN_OR_RETURN(std::optional<StepBatch> batch, batches_->Next());
  if (!batch.has_value()) return std::nullopt;
  std::vector<int64_t> lengths;
  for (const int64_t example : batch->examples) lengths.push_back(static_cast<int64_t>((*dataset_)[example].ids.size()));
  Step step{.batch = *std::move(batch), .tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0})};
  const Packing packing = PackStep(lengths, packing_);
  for (std::vector<int64_t> examples : packing[dp_rank_]) {
    for (int64_t& example : examples) example = step.batch.examples[example];
    step.micro_batches.push_back(MakeMicroBatch(*dataset_, std::move(examples)));
  }
  return step;
}

}  // namespace moonring::data
