// The key `split` of a data set's description: the whole split train or slices of it, in the syntax
// of the datasets library.
//
//   train    train[:100]    train[-50:]    train[10%:20%]    train[:10%]+train[-10%:]
//   train[:10%](pct1_dropremainder)
//
// A bound is a row number; negative numbers count from the end, and numbers out of range are
// clamped. If either bound has a %, both are percentages, rounded to the nearest row (halves to
// even), or with pct1_dropremainder multiplied by floor(rows / 100).
#ifndef MOONRING_DATA_DESCRIPTION_SPLIT_SLICES_H_
#define MOONRING_DATA_DESCRIPTION_SPLIT_SLICES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

struct SplitSlice {
  std::optional<int64_t> from, to;
  bool percent = false, drop_remainder = false;
};

// Parses `split`; an empty result means all rows. INVALID_ARGUMENT for a syntax error, a split
// other than train, or a percentage above 100.
absl::StatusOr<std::vector<SplitSlice>> ParseSplit(absl::string_view text);

// The row numbers that the slices select from n rows, in order. INVALID_ARGUMENT for
// pct1_dropremainder with fewer than 100 rows.
absl::StatusOr<std::vector<int64_t>> SliceRows(const std::vector<SplitSlice>& slices, int64_t n);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_SPLIT_SLICES_H_
