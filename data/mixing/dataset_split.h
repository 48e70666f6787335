// Splits rows into a training and a validation set: LLaMA-Factory 0.9.5's val_size, which calls
// train_test_split of the datasets library.
//
//   n_held_out = floor(val_size) rows if val_size > 1, otherwise ceil(val_size x n)
//   p = numpy.random.default_rng(seed).permutation(n);  held out = p[: n_held_out], train =
//       p[n_held_out :], both in that order
//
// Fails if val_size is 1 or not a positive number, or if the training set would be empty.
#ifndef MOONRING_DATA_MIXING_DATASET_SPLIT_H_
#define MOONRING_DATA_MIXING_DATASET_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace moonring::data {

struct DatasetSplit {
  std::vector<int64_t> train, held_out;
};

// Whether val_size requests a split. Values in [0, 1e-6] do not, as in LLaMA-Factory. True for
// values that SplitRows rejects (negative, NaN).
bool HoldsOut(double val_size);

absl::StatusOr<DatasetSplit> SplitRows(int64_t rows, double val_size, int64_t seed);

}  // namespace moonring::data

#endif  // MOONRING_DATA_MIXING_DATASET_SPLIT_H_
