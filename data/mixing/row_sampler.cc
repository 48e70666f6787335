#include "data/mixing/row_sampler.h"

#include <algorithm>

namespace moonring::data {

std::vector<int64_t> SampleRows(int64_t n, int64_t wanted, NumpyLegacyRandom& random) {
  std::vector<int64_t> rows = random.Permutation(n);
  rows.resize(std::min(n, wanted));
  while (static_cast<int64_t>(rows.size()) < wanted)
    rows.push_back(random.UpTo(static_cast<uint32_t>(n - 1)));
  return rows;
}

}  // namespace moonring::data
