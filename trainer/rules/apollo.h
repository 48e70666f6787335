#ifndef MOONRING_TRAINER_RULES_APOLLO_H_
#define MOONRING_TRAINER_RULES_APOLLO_H_

// APOLLO (Zhu et al. 2024, arXiv 2412.05270, algorithm 1), equal to apollo-torch 1.0.3's
// APOLLOAdamW: a weight is updated by its gradient, scaled by the ratio of Adam's direction to the
// gradient in a low-rank space (step t = 1, 2, ..; w: the weight, G: its gradient; low(G): the
// gradient in that space, of rank r, projection.h; `correction` is Adam's bias correction, adam.h).
//
//   L or R are redrawn if (t - 1) mod gap = 0 (projection.h): normal random numbers of variance
//   1 / r, or from the SVD of G
//   d = Adam's direction of low(G) (adam.h)
//   f = ||d|| / (||low(G)|| + 1e-8)      by channel: over the dim of size r; by tensor: over all
//   x = f G sqrt(scale), with limited growth of its norm (norm_growth.h)
//   w <- w - lr correction x        w <- w (1 - lr decay)
//
// With `scale_front`, sqrt(scale) is applied before the norm is limited. (LLaMA-Factory 0.9.5
// passes apollo_scale_front where the package does not read it.) APOLLO-Mini is rank 1 by tensor,
// with a scale of 128.
//
// Applies to the matrices of linear maps (matrices.h); other weights use Adam. The random numbers
// depend on (seed, name, number of the projection), so they are the same on every rank and after
// resuming; they differ from the package's.
//
// Parameters that one rank processes unsharded: these matrices. State of a matrix: L or R, m and v
// of low(G), and a norm. It is as large as GaLore's; with rank 1 it is very small.

#include <array>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "base/text/fields.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/matrices.h"
#include "trainer/rules/native_rule.h"
#include "trainer/rules/projection.h"

namespace moonring::trainer {

enum class ApolloSource { kRandom, kSvd };
constexpr auto WordsOf(ApolloSource) {
  return std::to_array<base::Word<ApolloSource>>(
      {{"random", ApolloSource::kRandom}, {"svd", ApolloSource::kSvd}});
}
enum class ApolloScale { kChannel, kTensor };
constexpr auto WordsOf(ApolloScale) {
  return std::to_array<base::Word<ApolloScale>>(
      {{"channel", ApolloScale::kChannel}, {"tensor", ApolloScale::kTensor}});
}

struct ApolloOptions {
  int64_t rank = 16;
  int64_t gap = 200;
  double scale = 32.0;
  ApolloSource source = ApolloSource::kRandom;
  ProjectionType type = ProjectionType::kStd;  // not kReverseStd, not kFull
  ApolloScale scale_by = ApolloScale::kChannel;
  bool scale_front = false;
  std::vector<std::string> targets;
  AdamOptions adam;
  double weight_decay = 0.0;
  int64_t seed = 0;
  // For tests: replaces the random L or R. `number` counts from 0.
  std::function<at::Tensor(const std::string& name, int64_t number, at::IntArrayRef shape)> draw;

  static constexpr std::tuple kFields = {
      base::Field{"rank", &ApolloOptions::rank, base::Range::kPositive},
      base::Field{"gap", &ApolloOptions::gap, base::Range::kPositive,
                  "steps between updates of the projection"},
      base::Field{"scale", &ApolloOptions::scale, base::Range::kNotNegative},
      base::Field{"source", &ApolloOptions::source,
                  "whether the projection is random or comes from an SVD of the gradient"},
      base::Field{"projection", &ApolloOptions::type,
                  "side of the gradient matrix that is projected; not reverse_std and not full"},
      base::Field{"scale_by", &ApolloOptions::scale_by,
                  "whether the learning rate is scaled for each channel or for the whole tensor"},
      base::Field{"scale_front", &ApolloOptions::scale_front,
                  "whether the update is multiplied by `scale` before the growth of its norm is "
                  "limited"},
      base::Field{"targets", &ApolloOptions::targets, kTargetsMeaning},
      base::Field{"adam", &ApolloOptions::adam},
      base::Field{"weight_decay", &ApolloOptions::weight_decay, base::Range::kNotNegative,
                  kDecayMeaning},
      base::Field{"seed", &ApolloOptions::seed, "seed of random projections"},
  };
};

absl::StatusOr<NativeRule> ApolloRule(const ApolloOptions& options,
                                      const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_APOLLO_H_
