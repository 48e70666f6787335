#include "model/rollout/rollout.h"

#include <utility>

#include <ATen/ops/tensor.h>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "comm/communicator.h"
#include "model/rollout/kept_casts.h"
#include "model/rollout/scheduler.h"

namespace moonring::model {
namespace {

// Whether any of `ranks` has work left. `mine` is this rank's status; an error on any rank is
// returned on all ranks.
absl::StatusOr<bool> AnyLeft(comm::Communicator* ranks, const absl::Status& mine, bool left) {
  if (ranks == nullptr) {
    RETURN_IF_ERROR(mine);
    return left;
  }
  at::Tensor counts = at::tensor({left ? 1 : 0, mine.ok() ? 0 : 1}, at::kLong);
  RETURN_IF_ERROR(ranks->AllReduceSum(counts));
  RETURN_IF_ERROR(mine);
  const int64_t failed = counts[1].item<int64_t>();
  if (failed > 0)
    return absl::AbortedError(absl::StrCat(failed,
                                           failed == 1 ? " rank that runs" : " ranks that run",
                                           " together with this one failed; their logs say why"));
  return counts[0].item<int64_t>() > 0;
}

absl::StatusOr<std::vector<std::vector<Answer>>> RunAll(Transformer& model,
                                                        absl::Span<const RolloutPrompt> prompts,
                                                        const RolloutOptions& options,
                                                        RolloutReport* report) {
  absl::Status status = Validate(options, prompts, model);
  if (options.spread.has_value()) {
    const absl::Status same = CheckSame(*options.spread->ranks, prompts, options);
    if (status.ok()) status = same;
  }
  if (!status.ok() && options.lockstep == nullptr) return status;
  const KeptCasts casts(model, options.keep_casts);
  Scheduler scheduler(model, status.ok() ? prompts : absl::Span<const RolloutPrompt>(), options);
  while (true) {
    if (status.ok()) status = base::TryTorch([&] { scheduler.TakePrompts(); });
    ASSIGN_OR_RETURN(const bool left,
                     AnyLeft(options.lockstep.get(), status, !scheduler.finished()));
    if (!left) break;
    status = base::TryTorch([&] { scheduler.Step(); });
  }
  if (report != nullptr) *report = scheduler.report();
  return scheduler.TakeAnswers();
}

}  // namespace

absl::StatusOr<std::vector<std::vector<Answer>>> Rollout(Transformer& model,
                                                         absl::Span<const RolloutPrompt> prompts,
                                                         const RolloutOptions& options,
                                                         RolloutReport* report) {
  auto answers = RunAll(model, prompts, options, report);
  if (!answers.ok()) return base::WithContext(answers.status(), "rollout");
  return answers;
}

}  // namespace moonring::model
