#include "attention/kernels/kernel_choice.h"

#include <algorithm>
#include <vector>

#include <ATen/ops/tensor.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"

namespace moonring::attention {
namespace {

constexpr double kWorthIt = 0.98;  // cuDNN's time must be below this share of flash attention's

}  // namespace

std::string ToString(const KernelChoice& choice) {
  if (choice.cudnn_from == 0) return "cudnn";
  return absl::StrCat("flash",
                      choice.cudnn_from == KernelChoice::kNever
                          ? ""
                          : absl::StrCat("<", choice.cudnn_from, "<=cudnn"),
                      choice.cudnn_at > 0 ? absl::StrCat(", cudnn=", choice.cudnn_at) : "");
}

absl::StatusOr<KernelChoice> ParseKernelChoice(absl::string_view text) {
  const auto length = [](absl::string_view digits, int64_t& tokens) {
    return absl::SimpleAtoi(digits, &tokens) && tokens > 0;
  };
  if (text == "cudnn") return KernelChoice{0};
  const std::vector<absl::string_view> words = absl::StrSplit(text, absl::MaxSplits(", cudnn=", 1));
  KernelChoice choice;
  absl::string_view first = words[0];
  bool good = first == "flash" ||
              (absl::ConsumePrefix(&first, "flash<") && absl::ConsumeSuffix(&first, "<=cudnn") &&
               length(first, choice.cudnn_from));
  if (words.size() == 2) good = good && length(words[1], choice.cudnn_at);
  if (good) return choice;
  return absl::InvalidArgumentError(absl::StrCat(
      "attention kernel \"", text,
      "\": expected flash, cudnn, or as flash<8192<=cudnn, with \", cudnn=4096\" behind "
      "it for documents of that length too"));
}

KernelChoice ChooseKernels(absl::Span<const KernelTiming> timings, const KernelUse& use) {
  std::vector<KernelTiming> sorted(timings.begin(), timings.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const KernelTiming& a, const KernelTiming& b) { return a.length > b.length; });
  KernelChoice choice;
  int64_t faster_from = KernelChoice::kNever;
  bool pays = true;  // whether cuDNN saves time at all greater lengths
  for (const KernelTiming& timing : sorted) {
    if (!timing.cudnn_seconds.has_value()) break;
    if (*timing.cudnn_seconds >= kWorthIt * timing.flash_seconds) break;
    faster_from = timing.length;
    const double saved = timing.flash_seconds - *timing.cudnn_seconds;
    pays = pays && static_cast<double>(use.layers) * saved > timing.build_seconds;
    if (pays) choice.cudnn_from = timing.length;
  }
  if (use.often >= faster_from && use.often < choice.cudnn_from) choice.cudnn_at = use.often;
  return choice;
}

absl::Status TakeFirstRanks(comm::Communicator& group, KernelChoice& choice) {
  at::Tensor lengths = at::tensor({choice.cudnn_from, choice.cudnn_at}, at::kLong);
  RETURN_IF_ERROR(group.Broadcast(lengths, 0), "attention kernels");
  choice.cudnn_from = lengths.const_data_ptr<int64_t>()[0];
  choice.cudnn_at = lengths.const_data_ptr<int64_t>()[1];
  return absl::OkStatus();
}

}  // namespace moonring::attention
