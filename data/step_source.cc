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
  const auto same_kind = [](const Example& a, const Example& b) {
    const bool rows = a.padding.has_value();  // of neat_packing, of as many documents as each has
    return rows == b.padding.has_value() && (rows || a.documents.size() == b.documents.size()) && a.desirable.has_value() == b.desirable.has_value();
  };
  for (const Example& example : *dataset) {
    TORCH_CHECK(same_kind(example, dataset->front()), "step_source: examples of one data set must be of one kind");
  }
  return std::unique_ptr<StepSource>(new StepSource(std::move(dataset), std::move(batches), packing, dp_rank));
}

absl::StatusOr<std::optional<Step>> StepSource::Next() {
  ASSIGN_OR_RETURN(std::optional<StepBatch> batch, batches_->Next());
  if (!batch.has_value()) return std::nullopt;
  Step step{.batch = *std::move(batch)};
  std::vector<int64_t> lengths, mismatched;  // the latter of all examples or of none
  for (const int64_t index : step.batch.examples) {
    const Example& example = (*dataset_)[index];
    lengths.push_back(example.trained_tokens());
    if (example.trained_documents() < static_cast<int64_t>(example.documents.size())) mismatched.push_back(example.documents.back().size());
  }
  step.tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const auto pack = [&](absl::Span<const int64_t> each, Part part, std::vector<MicroBatch>& micro_batches) {
    Packing packing = PackStep(each, packing_);
    for (std::vector<int64_t>& places : packing[dp_rank_]) {
      micro_batches.push_back(MakeMicroBatch(*dataset_, step.batch.examples, std::move(places), part));
    }
  };
  pack(lengths, Part::kTrained, step.micro_batches);
  pack(mismatched, Part::kMismatched, step.mismatched);
  return step;
}

}  // namespace moonring::data
