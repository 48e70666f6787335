#include "kernels/products/product_choice.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace moonring::kernels {
namespace {

constexpr double kWorthIt = 0.95;  // of MKL's time

constexpr std::array<absl::string_view, kProductForms> kNames = {
    "forward",        "input_gradient",        "weight_gradient",
    "narrow_forward", "narrow_input_gradient", "narrow_weight_gradient"};

absl::Status Unknown(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("products: \"", text, "\": expected mkl, onednn, or onednn: and some of ",
                   absl::StrJoin(kNames, "+")));
}

}  // namespace

std::string ToString(const ProductChoice& choice) {
  std::vector<absl::string_view> names;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (choice.onednn[i]) names.push_back(kNames[i]);
  }
  if (names.empty()) return "mkl";
  if (names.size() == kNames.size()) return "onednn";
  return absl::StrCat("onednn:", absl::StrJoin(names, "+"));
}

absl::StatusOr<ProductChoice> ParseProductChoice(absl::string_view text) {
  ProductChoice choice;
  if (text == "mkl") return choice;
  if (text == "onednn") {
    choice.onednn.fill(true);
    return choice;
  }
  absl::string_view forms = text;
  if (!absl::ConsumePrefix(&forms, "onednn:")) return Unknown(text);
  for (const absl::string_view name : absl::StrSplit(forms, '+')) {
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end()) return Unknown(text);
    choice.onednn[static_cast<size_t>(found - kNames.begin())] = true;
  }
  return choice;
}

ProductChoice ChooseProducts(absl::Span<const ProductTiming> timings) {
  ProductChoice timed, slower;
  for (const ProductTiming& timing : timings) {
    const auto form = static_cast<size_t>(timing.form);
    timed.onednn[form] = true;
    const bool faster =
        timing.onednn_seconds.has_value() && *timing.onednn_seconds < kWorthIt * timing.mkl_seconds;
    if (!faster) slower.onednn[form] = true;
  }
  ProductChoice choice;
  for (size_t i = 0; i < choice.onednn.size(); ++i) {
    choice.onednn[i] = timed.onednn[i] && !slower.onednn[i];
  }
  return choice;
}

}  // namespace moonring::kernels
