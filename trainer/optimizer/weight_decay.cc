#include "trainer/optimizer/weight_decay.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace moonring::trainer {

bool DecaysWeight(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (absl::StrContains(lower, "bias") || absl::StrContains(lower, "layernorm") ||
      absl::StrContains(lower, "rmsnorm"))
    return false;
  for (const absl::string_view part : absl::StrSplit(lower, '.')) {
    if (part == "norm" || absl::EndsWith(part, "_norm")) return false;
  }
  return true;
}

}  // namespace moonring::trainer
