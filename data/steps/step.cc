#include "data/steps/step.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace moonring::data {
namespace {

absl::Status CheckGroups(const std::vector<std::vector<int64_t>>& groups, int64_t size) {
  std::vector<bool> taken(size);
  int64_t count = 0;
  for (const std::vector<int64_t>& group : groups) {
    for (const int64_t place : group) {
      if (place < 0 || place >= size)
        return absl::InvalidArgumentError(
            absl::StrCat("no place ", place, " in a step of ", size, " examples"));
      if (taken[place])
        return absl::InvalidArgumentError(absl::StrCat("place ", place, " is in two groups"));
      taken[place] = true;
      ++count;
    }
  }
  if (count == size) return absl::OkStatus();
  for (int64_t place = 0; place < size; ++place) {
    if (!taken[place])
      return absl::InvalidArgumentError(absl::StrCat("place ", place, " is in no group"));
  }
  return absl::OkStatus();
}

}  // namespace

Step MakeStep(const StepExamples& taken, const PackOptions& packing, int64_t dp_rank) {
  Step step{.batch = taken.batch,
            .examples = taken.examples,
            .families = taken.families,
            .share_prefixes = packing.share_prefixes,
            .dp = packing.dp};
  std::vector<int64_t> mismatched;  // of all examples, or empty
  for (const std::shared_ptr<const Example>& example : taken.examples) {
    step.lengths.push_back(example->trained_tokens());
    if (example->trained_documents() < static_cast<int64_t>(example->documents.size()))
      mismatched.push_back(example->documents.back().size());
    for (int64_t i = 0; i < example->trained_documents(); ++i) {
      const auto tokens = static_cast<double>(example->documents[i].size());
      step.squares += tokens * tokens;
    }
  }
  step.tokens = std::accumulate(step.lengths.begin(), step.lengths.end(), int64_t{0});
  Packing trained = PackExamples(taken, packing), apart = PackStep(mismatched, packing);
  for (std::vector<int64_t>& places : trained[dp_rank]) {
    step.micro_batches.push_back(
        MakeMicroBatch(taken, std::move(places), Part::kTrained, packing.share_prefixes));
  }
  for (std::vector<int64_t>& places : apart[dp_rank])
    step.mismatched.push_back(MakeMicroBatch(taken, std::move(places), Part::kMismatched));
  return step;
}

absl::Status Regroup(const std::vector<std::vector<int64_t>>& groups, int64_t dp, int64_t dp_rank,
                     Step& step) {
  const absl::Status checked = CheckGroups(groups, static_cast<int64_t>(step.examples.size()));
  if (!checked.ok()) return checked;
  const StepExamples taken{
      .batch = step.batch, .examples = step.examples, .families = step.families};
  std::vector<MicroBatch> micro_batches;
  Packing dealt = DealGroups(groups, step.lengths, dp);
  for (std::vector<int64_t>& group : dealt[dp_rank])
    micro_batches.push_back(
        MakeMicroBatch(taken, std::move(group), Part::kTrained, step.share_prefixes));
  step.micro_batches = std::move(micro_batches);
  return absl::OkStatus();
}

}  // namespace moonring::data
