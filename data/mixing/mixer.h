// Mixes the rows of several data sets: LLaMA-Factory 0.9.5's mix_strategy, which calls
// interleave_datasets of the datasets library.
//
//   concat            all rows of each data set, one data set after another
//   interleave_under  one row of each in turn, until the first data set is exhausted (without
//                     probabilities, each data set gives as many rows as the smallest one has)
//   interleave_over   one row of each in turn, until every data set is exhausted; an exhausted data
//                     set restarts
//   interleave_once   one row of each in turn, until every data set is exhausted; an exhausted data
//                     set is skipped (not available in datasets 4.0.0, which LLaMA-Factory 0.9.5
//                     requires; later versions have it)
//
// With probabilities, the next data set is drawn: the first one whose cumulative probability
// exceeds numpy.random.default_rng(seed).random(). The row that ends the mixing is included.
//
// Fails if there is not one probability for each data set, if one is negative, if their sum is not
// 1, if the mixing would never end (over and once, with a data set of probability 0), or if it
// would take more than 2^31 turns. Cost: O(rows of the result), 16 bytes each.
#ifndef MOONRING_DATA_MIXING_MIXER_H_
#define MOONRING_DATA_MIXING_MIXER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::data {

enum class MixStrategy { kConcat, kInterleaveUnder, kInterleaveOver, kInterleaveOnce };

absl::StatusOr<MixStrategy> ParseMixStrategy(
    absl::string_view name);  // "concat", "interleave_under", ...

struct MixOptions {
  MixStrategy strategy = MixStrategy::kConcat;
  std::vector<double> probabilities;  // empty: one row of each in turn
};

absl::Status CheckMix(const MixOptions& options, int64_t datasets);

struct MixedRow {
  int64_t dataset = 0;
  int64_t row = 0;
};

// The order of the mixed rows. rows[d] >= 1: the number of rows of data set d. A single data set is
// returned unchanged by every strategy. `seed` (>= 0) is used only with probabilities.
absl::StatusOr<std::vector<MixedRow>> MixRows(const std::vector<int64_t>& rows,
                                              const MixOptions& options, int64_t seed);

}  // namespace moonring::data

#endif  // MOONRING_DATA_MIXING_MIXER_H_
