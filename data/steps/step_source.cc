#include "data/steps/step_source.h"

#include <utility>

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::data {

absl::StatusOr<std::unique_ptr<StepSource>> StepSource::Create(
    std::unique_ptr<Source<StepExamples>> examples, PackOptions packing, int64_t dp_rank) {
  TORCH_CHECK(examples != nullptr, "step_source: expected a source of examples");
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
  return MakeStep(*taken, packing_, dp_rank_);
}

}  // namespace moonring::data
