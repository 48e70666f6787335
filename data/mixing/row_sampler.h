// Which rows `num_samples` of a data set's description takes, as LLaMA-Factory 0.9.5 draws them:
//
//   numpy.random.permutation(n)[:wanted], and where that is too few numpy.random.choice(n, the
//       rest) behind it
//
// from numpy's global generator, which LLaMA-Factory seeds once with `seed`: data sets that sample
// draw from it one after another. (There, those of eval_dataset draw on where those of dataset
// ended; here each of the two begins anew.)
#ifndef MOONRING_DATA_MIXING_ROW_SAMPLER_H_
#define MOONRING_DATA_MIXING_ROW_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "data/mixing/numpy_random.h"

namespace moonring::data {

// Of n rows, 1 to 2^32. A row may be there several times. Cost: O(n + wanted).
std::vector<int64_t> SampleRows(int64_t n, int64_t wanted, NumpyLegacyRandom& random);

}  // namespace moonring::data

#endif  // MOONRING_DATA_MIXING_ROW_SAMPLER_H_
