#ifndef MOONRING_TRAINER_RULES_APOLLO_H_
#define MOONRING_TRAINER_RULES_APOLLO_H_

// APOLLO (Zhu et al. 2024, arXiv 2412.05270, algorithm 1), as apollo-torch 1.0.3's APOLLOAdamW: the
// gradient itself, scaled by what Adam does to it in a small space (step t = 1, 2, ..).
//
//   L or R anew where (t - 1) mod gap = 0 (projection.h), of normal numbers of variance 1 / r, or
//   from the SVD of G
//   d = Adam's direction of low(G) (adam.h)
//   f = ||d|| / (||low(G)|| + 1e-8)      by channel: over the dim that is r; by tensor: over all
//   x = f G sqrt(scale), its norm's growth limited (norm_growth.h)
//   w <- w - lr correction x        w <- w (1 - lr decay)
//
// With `scale_front` sqrt(scale) is in the norm that is limited. (LLaMA-Factory 0.9.5 hands
// apollo_scale_front to where the package does not read it.) APOLLO-Mini is rank 1 by tensor, with
// a scale of 128.
//
// The matrices are those of linear maps (matrices.h), the other weights learn by Adam. The normal
// numbers are of (seed, name, number of the projection), the same on every rank and after a resume;
// they are not the package's.
//
// Whole: these matrices. State of one: L or R, m and v of `low`, a norm: as GaLore's; with rank 1
// next to nothing.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/native_rule.h"
#include "trainer/rules/projection.h"

namespace moonring::trainer {

enum class ApolloSource { kRandom, kSvd };
enum class ApolloScale { kChannel, kTensor };

struct ApolloOptions {
  int64_t rank = 16;
  int64_t gap = 200;
  double scale = 32.0;
  ApolloSource source = ApolloSource::kRandom;
  ProjectionType type = ProjectionType::kStd;  // not kReverseStd, not kFull
  ApolloScale scale_by = ApolloScale::kChannel;
  bool scale_front = false;
  std::vector<std::string> targets;  // none: every linear map but the head
  AdamOptions adam;
  double weight_decay = 0.0;
  int64_t seed = 0;
  // For tests: L or R in place of the random ones. `number` counts from 0.
  std::function<at::Tensor(const std::string& name, int64_t number, at::IntArrayRef shape)> draw;
};

absl::StatusOr<NativeRule> ApolloRule(const ApolloOptions& options,
                                      const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_APOLLO_H_
