#include "data/description/split_slices.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"

namespace moonring::data {
namespace {

constexpr absl::string_view kForms =
    "expected train, train[:100], train[-50:], train[10%:20%] or such joined by +";

absl::Status WrongForm(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("'split' is \"", text, "\": ", kForms));
}

// Parses one bound: empty, or a number with an optional %.
bool ParseBound(absl::string_view text, std::optional<int64_t>& bound, bool& percent) {
  percent |= absl::ConsumeSuffix(&text, "%");
  int64_t number = 0;
  if (text.empty()) return true;
  if (!absl::SimpleAtoi(text, &number) || text[0] == '+') return false;
  bound = number;
  return true;
}

absl::StatusOr<SplitSlice> ParseSlice(absl::string_view text, absl::string_view whole) {
  SplitSlice slice;
  const size_t bracket = text.find_first_of("[(");
  const absl::string_view name = text.substr(0, bracket);
  if (name != "train") {
    return absl::InvalidArgumentError(
        absl::StrCat("a local file has the split train alone, not \"", name,
                     "\": describe the file of that split with 'file_name'"));
  }
  absl::string_view rest = text.substr(name.size());
  slice.drop_remainder = absl::ConsumeSuffix(&rest, "(pct1_dropremainder)");
  const bool rounds = slice.drop_remainder || absl::ConsumeSuffix(&rest, "(closest)");
  if (rest.empty()) return rounds ? WrongForm(whole) : absl::StatusOr<SplitSlice>(slice);
  if (!absl::ConsumePrefix(&rest, "[") || !absl::ConsumeSuffix(&rest, "]")) return WrongForm(whole);
  const std::vector<absl::string_view> bounds = absl::StrSplit(rest, ':');
  if (bounds.size() != 2 || !ParseBound(bounds[0], slice.from, slice.percent) ||
      !ParseBound(bounds[1], slice.to, slice.percent))
    return WrongForm(whole);
  const auto beyond = [&](const std::optional<int64_t>& bound) {
    return bound.has_value() && std::abs(*bound) > 100;
  };
  if (slice.percent && (beyond(slice.from) || beyond(slice.to)))
    return absl::InvalidArgumentError(absl::StrCat("'split' is \"", whole, "\": more than 100%"));
  if (rounds && !slice.percent) return WrongForm(whole);
  return slice;
}

int64_t RowOf(int64_t bound, const SplitSlice& slice, int64_t n) {
  if (slice.percent)
    bound = slice.drop_remainder
                ? bound * (n / 100)
                : static_cast<int64_t>(std::nearbyint(static_cast<double>(bound * n) / 100.0));
  return std::min(bound < 0 ? std::max<int64_t>(n + bound, 0) : bound, n);
}

}  // namespace

absl::StatusOr<std::vector<SplitSlice>> ParseSplit(absl::string_view text) {
  std::vector<SplitSlice> slices;
  if (text == "train") return slices;
  for (absl::string_view part : absl::StrSplit(text, '+')) {
    ASSIGN_OR_RETURN(slices.emplace_back(), ParseSlice(absl::StripAsciiWhitespace(part), text));
  }
  return slices;
}

absl::StatusOr<std::vector<int64_t>> SliceRows(const std::vector<SplitSlice>& slices, int64_t n) {
  std::vector<int64_t> rows;
  for (const SplitSlice& slice : slices) {
    if (slice.drop_remainder && n < 100)
      return absl::InvalidArgumentError(
          absl::StrCat("'split' asks for whole hundredths (pct1_dropremainder) of ", n, " rows"));
    const int64_t end = slice.to.has_value() ? RowOf(*slice.to, slice, n) : n;
    for (int64_t row = slice.from.has_value() ? RowOf(*slice.from, slice, n) : 0; row < end; ++row)
      rows.push_back(row);
  }
  return rows;
}

}  // namespace moonring::data
