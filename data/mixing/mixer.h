// How the rows of several data sets are mixed: LLaMA-Factory 0.9.5's mix_strategy, which is
// datasets.interleave_datasets.
//
//   concat            each data set whole, one after another
//   interleave_under  a row of each in turn, until the first data set has none left (without
//                     probabilities: no more than its rows of each)
//   interleave_over   a row of each in turn, a data set that is through begins again, until every
//                     one has been through
//   interleave_once   a row of each in turn, a data set that is through is passed over, until every
//                     row was taken (datasets 4.0.0, which LLaMA-Factory 0.9.5 asks for, cannot do
//                     this one; later versions can)
//
// With probabilities the next data set is drawn: the first whose cumulated probability is above
// numpy.random.default_rng(seed).random(). The row that ends an interleaving is part of it.
//
// Fails where probabilities are not one for each data set, negative, of another sum than 1, or such
// that the order would never end (a data set that is never drawn under over and once) or take more
// than 2^31 turns. Cost: O(rows that come out), 16 bytes each.
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
  std::vector<double> probabilities;  // none: in turn
};

absl::Status CheckMix(const MixOptions& options, int64_t datasets);

struct MixedRow {
  int64_t dataset = 0;
  int64_t row = 0;
};

// rows[d]: how many data set d has, at least 1. One data set is itself under every strategy. `seed`
// is for probabilities, 0 or more.
absl::StatusOr<std::vector<MixedRow>> MixRows(const std::vector<int64_t>& rows,
                                              const MixOptions& options, int64_t seed);

}  // namespace moonring::data

#endif  // MOONRING_DATA_MIXING_MIXER_H_
