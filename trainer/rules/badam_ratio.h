#ifndef MOONRING_TRAINER_RULES_BADAM_RATIO_H_
#define MOONRING_TRAINER_RULES_BADAM_RATIO_H_

// BAdam's ratio mode (Luo, Yu, Li 2024, arXiv 2404.02827), equal to the package badam 1.4: Adam on
// a fraction of each weight's elements, and every `turn` steps on the next fraction. Of n elements,
// k = int(n ratio) are trained; turn j (from 0) trains those at indices j k, j k + 1, .. (modulo n)
// of an order (w: weight, g: gradient, m and v: its moments, b1 and b2: the betas):
//
//   kAdjacent   the order of the elements themselves
//   kScatter    a random one, the same in every turn, keyed by the seed and the parameter's index
//
//   m <- b1 m + (1 - b1) g        v <- b2 v + (1 - b2) g^2        (0 at the beginning of a turn)
//   w <- w - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps)   t: the turn's steps, from 1
//
// There is no weight decay. Embedding and head are not trained.
//
// State: m and v of the trained fraction, 8 ratio bytes per element. kScatter recomputes its order
// in each step: 8 bytes per element of the current weight.

#include <array>
#include <cstdint>
#include <tuple>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/native_rule.h"

namespace moonring::trainer {

enum class BadamMask { kAdjacent, kScatter };
constexpr auto WordsOf(BadamMask) {
  return std::to_array<base::Word<BadamMask>>(
      {{"adjacent", BadamMask::kAdjacent}, {"scatter", BadamMask::kScatter}});
}

struct BadamRatioOptions {
  double ratio = 0.05;
  int64_t turn = 100;  // in steps
  BadamMask mask = BadamMask::kAdjacent;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  int64_t seed = 0;

  static constexpr std::tuple kFields = {
      base::Field{"ratio", &BadamRatioOptions::ratio,
                  "fraction of the elements of each weight that are trained at the same time"},
      base::Field{"mask", &BadamRatioOptions::mask, "how these elements are selected"},
      base::Field{"beta1", &BadamRatioOptions::beta1, base::Range::kFraction},
      base::Field{"beta2", &BadamRatioOptions::beta2, base::Range::kFraction},
      base::Field{"epsilon", &BadamRatioOptions::epsilon, base::Range::kNotNegative},
      base::Field{"seed", &BadamRatioOptions::seed,
                  "seed of the random order in which \"scatter\" selects"},
  };
};

absl::StatusOr<NativeRule> BadamRatioRule(const BadamRatioOptions& options,
                                          const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_BADAM_RATIO_H_
