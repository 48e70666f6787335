#include "attention/kernel_choice.h"

#include <algorithm>
#include <vector>

#include <ATen/ops/full.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "comm/status/status_macros.h"

namespace moonring::attention {
namespace {

constexpr double kWorthIt = 0.98;  // of flash's time

}  // namespace

std::string ToString(const KernelChoice& choice) {
  if (choice.cudnn_from == KernelChoice::kNever) return "flash";
  if (choice.cudnn_from == 0) return "cudnn";
  return absl::StrCat("flash<", choice.cudnn_from, "<=cudnn");
}

absl::StatusOr<KernelChoice> ParseKernelChoice(absl::string_view text) {
  if (text == "flash") return KernelChoice{};
  if (text == "cudnn") return KernelChoice{0};
  absl::string_view length = text;
  KernelChoice choice;
  if (absl::ConsumePrefix(&length, "flash<") && absl::ConsumeSuffix(&length, "<=cudnn") &&
      absl::SimpleAtoi(length, &choice.cudnn_from) && choice.cudnn_from > 0) {
    return choice;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "attention kernel \"", text, "\": wanted flash, cudnn, or as flash<8192<=cudnn"));
}

KernelChoice ChooseKernels(absl::Span<const KernelTiming> timings) {
  std::vector<KernelTiming> sorted(timings.begin(), timings.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const KernelTiming& a, const KernelTiming& b) { return a.length > b.length; });
  KernelChoice choice;
  for (const KernelTiming& timing : sorted) {
    const bool is_faster =
        timing.cudnn_seconds.has_value() && *timing.cudnn_seconds < kWorthIt * timing.flash_seconds;
    if (!is_faster) break;
    choice.cudnn_from = timing.length;
  }
  return choice;
}

absl::Status TakeFirstRanks(comm::Communicator& group, KernelChoice& choice) {
  at::Tensor from = at::full({1}, choice.cudnn_from, at::kLong);
  RETURN_IF_ERROR(group.Broadcast(from, 0), "attention kernels");
  choice.cudnn_from = *from.const_data_ptr<int64_t>();
  return absl::OkStatus();
}

}  // namespace moonring::attention
