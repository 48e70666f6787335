// Draws the rows for `num_samples` of a data set's description, as LLaMA-Factory 0.9.5 does:
//
//   numpy.random.permutation(n)[:wanted], followed, if wanted > n, by numpy.random.choice(n,
//       wanted - n)
//
// Both use numpy's global generator, which LLaMA-Factory seeds once with `seed`; sampled data sets
// draw from it one after another. (In LLaMA-Factory, eval_dataset continues the sequence of
// dataset; here each of the two keys starts with the seed.)
#ifndef MOONRING_DATA_MIXING_ROW_SAMPLER_H_
#define MOONRING_DATA_MIXING_ROW_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "data/mixing/numpy_random.h"

namespace moonring::data {

// Draws `wanted` of n rows (1 <= n <= 2^32). A row may occur several times. Cost: O(n + wanted).
std::vector<int64_t> SampleRows(int64_t n, int64_t wanted, NumpyLegacyRandom& random);

}  // namespace moonring::data

#endif  // MOONRING_DATA_MIXING_ROW_SAMPLER_H_
