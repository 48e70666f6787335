#include "data/steps/step_source.h"

#include <numeric>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "comm/status/status_macros.h"

namespace moonring::data {

absl::StatusOr<std::unique_ptr<StepSource>> StepSource::Create(
    std::unique_ptr<Source<StepExamples>> examples, PackOptions packing, int64_t dp_rank) {
  TORCH_CHECK(examples != nullptr, "step_source: wanted a source of examples");
  if (packing.dp < 1 || dp_rank < 0 || dp_rank >= packing.dp)
    return absl::InvalidArgumentError(
        absl::StrCat("step_source: no dp rank ", dp_rank, " of ", packing.dp));
  if (packing.micro_batch_tokens < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("micro_batch_tokens must be at least 1, got ", packing.micro_batch_tokens));
  return std::unique_ptr<StepSource>(new StepSource(std::move(examples), packing, dp_rank));
}

absl::StatusOr<std::optional<Step>> StepSource::Next() {
  ASSIGN_OR_RETURN(const std::optional<StepExamples> taken, examples_->Next());
  if (!taken.has_value()) return std::nullopt;
  Step step{.batch = taken->batch};
  std::vector<int64_t> lengths, mismatched;  // the latter of all examples or of none
  for (const std::shared_ptr<const Example>& example : taken->examples) {
    lengths.push_back(example->trained_tokens());
    if (example->trained_documents() < static_cast<int64_t>(example->documents.size()))
      mismatched.push_back(example->documents.back().size());
  }
  step.tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const auto pack = [&](absl::Span<const int64_t> each, Part part,
                        std::vector<MicroBatch>& micro_batches) {
    Packing packing = PackStep(each, packing_);
    for (std::vector<int64_t>& places : packing[dp_rank_]) {
      micro_batches.push_back(MakeMicroBatch(*taken, std::move(places), part));
    }
  };
  pack(lengths, Part::kTrained, step.micro_batches);
  pack(mismatched, Part::kMismatched, step.mismatched);
  return step;
}

}  // namespace moonring::data
