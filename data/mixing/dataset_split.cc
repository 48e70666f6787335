#include "data/mixing/dataset_split.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "data/mixing/numpy_random.h"

namespace moonring::data {

bool HoldsOut(double val_size) { return !(val_size >= 0 && val_size <= 1e-6); }

absl::StatusOr<DatasetSplit> SplitRows(int64_t rows, double val_size, int64_t seed) {
  if (!(val_size > 0) || val_size == 1 || !std::isfinite(val_size)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "val_size must be a part of the rows between 0 and 1, or a number of rows above 1, got ",
        val_size));
  }
  if (seed < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("seed must be 0 or more where val_size is given, got ", seed));
  const double held_out =
      val_size > 1 ? std::trunc(val_size) : std::ceil(val_size * static_cast<double>(rows));
  if (held_out >= static_cast<double>(rows)) {
    return absl::InvalidArgumentError(absl::StrCat("val_size ", val_size, " holds out ", held_out,
                                                   " of ", rows,
                                                   " rows and leaves none to train on"));
  }
  const std::vector<int64_t> order = NumpyRandom(static_cast<uint64_t>(seed)).Permutation(rows);
  const auto border = order.begin() + static_cast<int64_t>(held_out);
  return DatasetSplit{.train = {border, order.end()}, .held_out = {order.begin(), border}};
}

}  // namespace moonring::data
