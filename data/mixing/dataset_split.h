// Which rows are held out for evaluation: LLaMA-Factory 0.9.5's val_size, which is datasets'
// train_test_split.
//
//   n_held_out = val_size rows where it is above 1 (its fraction cut off), else ceil(val_size x n)
//   p = numpy.random.default_rng(seed).permutation(n);  held out = p[: n_held_out], train =
//       p[n_held_out :], both in that order
//
// Fails where val_size is 1 or no positive number, or leaves nothing to learn.
#ifndef MOONRING_DATA_MIXING_DATASET_SPLIT_H_
#define MOONRING_DATA_MIXING_DATASET_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace moonring::data {

struct DatasetSplit {
  std::vector<int64_t> train, held_out;
};

// Whether val_size asks for a split: 1e-6 and less is none, as in LLaMA-Factory. One that SplitRows
// refuses (below 0, NaN) asks for one.
bool HoldsOut(double val_size);

absl::StatusOr<DatasetSplit> SplitRows(int64_t rows, double val_size, int64_t seed);

}  // namespace moonring::data

#endif  // MOONRING_DATA_MIXING_DATASET_SPLIT_H_
