// What the key `split` of a data set's description asks for, in datasets' words: the whole of split
// train, or slices of it.
//
//   train    train[:100]    train[-50:]    train[10%:20%]    train[:10%]+train[-10%:]
//   train[:10%](pct1_dropremainder)
//
// A bound is a number of rows from the beginning, or where it is negative from the end; beyond the
// rows it is their end. With a % on either side both are parts of a hundred, rounded to the nearest
// row (halves to the even one), or with pct1_dropremainder times the hundredth rounded down.
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

// No slice: all rows. INVALID_ARGUMENT where the text is of another form, names another split than
// train, or a part of more than a hundred.
absl::StatusOr<std::vector<SplitSlice>> ParseSplit(absl::string_view text);

// The numbers of the rows that the slices take of n rows, in their order. INVALID_ARGUMENT for
// pct1_dropremainder of less than a hundred rows.
absl::StatusOr<std::vector<int64_t>> SliceRows(const std::vector<SplitSlice>& slices, int64_t n);

}  // namespace moonring::data

#endif  // MOONRING_DATA_DESCRIPTION_SPLIT_SLICES_H_
