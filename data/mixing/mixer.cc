#include "data/mixing/mixer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "data/mixing/numpy_random.h"
#include "data/mixing/turns.h"

namespace moonring::data {
namespace {

constexpr int64_t kMostTurns = int64_t{1} << 31;

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

std::vector<MixedRow> Concatenate(const std::vector<int64_t>& rows) {
  std::vector<MixedRow> order;
  for (size_t d = 0; d < rows.size(); ++d) {
    for (int64_t row = 0; row < rows[d]; ++row) order.push_back({static_cast<int64_t>(d), row});
  }
  return order;
}

}  // namespace

absl::StatusOr<MixStrategy> ParseMixStrategy(absl::string_view name) {
  if (name == "concat") return MixStrategy::kConcat;
  if (name == "interleave_under") return MixStrategy::kInterleaveUnder;
  if (name == "interleave_over") return MixStrategy::kInterleaveOver;
  if (name == "interleave_once") return MixStrategy::kInterleaveOnce;
  return Invalid(absl::StrCat(
      "mix_strategy must be concat, interleave_under, interleave_over or interleave_once, got '",
      name, "'"));
}

absl::Status CheckMix(const MixOptions& options, int64_t datasets) {
  const std::vector<double>& probabilities = options.probabilities;
  if (probabilities.empty()) return absl::OkStatus();
  if (options.strategy == MixStrategy::kConcat)
    return Invalid("interleave_probs is for a mix_strategy that interleaves, and it is concat");
  if (static_cast<int64_t>(probabilities.size()) != datasets) {
    return Invalid(absl::StrCat("interleave_probs has ", probabilities.size(),
                                " numbers, and there are ", datasets, " data sets"));
  }
  for (const double probability : probabilities) {
    if (!(probability >= 0))
      return Invalid(absl::StrCat("interleave_probs must be 0 or more, got ", probability));
    if (probability == 0 && options.strategy != MixStrategy::kInterleaveUnder) {
      return Invalid(
          "interleave_probs: a data set of probability 0 is never exhausted, which this "
          "mix_strategy waits for");
    }
  }
  // numpy's tolerance: the square root of the double epsilon
  constexpr double kNear = 1.4901161193847656e-08;
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  if (std::abs(sum - 1) > kNear)
    return Invalid(absl::StrCat("interleave_probs must add up to 1, and ",
                                absl::StrJoin(probabilities, " + "), " is ", sum));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MixedRow>> MixRows(const std::vector<int64_t>& rows,
                                              const MixOptions& options, int64_t seed) {
  const int64_t datasets = static_cast<int64_t>(rows.size());
  RETURN_IF_ERROR(CheckMix(options, datasets));
  if (absl::c_any_of(rows, [](int64_t count) { return count < 1; }))
    return Invalid("an empty data set cannot be mixed");
  if (datasets <= 1 || options.strategy == MixStrategy::kConcat) return Concatenate(rows);
  if (!options.probabilities.empty() && seed < 0)
    return Invalid(
        absl::StrCat("seed must be 0 or more where interleave_probs is given, got ", seed));
  const bool in_turn = options.probabilities.empty();
  const bool under = options.strategy == MixStrategy::kInterleaveUnder;
  const bool once = options.strategy == MixStrategy::kInterleaveOnce;
  Turns turns(datasets, options.probabilities, NumpyRandom(static_cast<uint64_t>(seed)));
  std::vector<int64_t> taken(datasets);
  int64_t through = 0;  // data sets whose rows were all used
  std::vector<MixedRow> order;
  // Without probabilities, the round in which the last required data set is exhausted is completed,
  // unless the strategy is interleave_once.
  for (int64_t turn = 0;
       through < (under ? 1 : datasets) || (in_turn && !once && turn % datasets != 0); ++turn) {
    const int64_t d = turns.Next();
    if (turn == kMostTurns)
      return Invalid(
          "mix_strategy: the order would take more than 2^31 turns; one of interleave_probs may be "
          "too small");
    if (once && taken[d] == rows[d]) continue;
    order.push_back({d, taken[d] % rows[d]});
    if (++taken[d] == rows[d]) ++through;
  }
  return order;
}

}  // namespace moonring::data
