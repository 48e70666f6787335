#ifndef MOONRING_TRAINER_ZCLIP_H_
#define MOONRING_TRAINER_ZCLIP_H_

// Clipping of spikes in the gradient's norm by its own history: ZClip (Kumar, Owen, Chowdhury,
// Guera 2025, "ZClip: Adaptive Spike Mitigation for LLM Pre-Training", arXiv:2504.02507), with the
// paper's constants.
//
//   z  = (g - mu) / sigma                    g the norm, mu and sigma^2 its running mean and
//                                            variance
//   g* = mu + (kThreshold^2 / z) sigma       where z > kThreshold: the further out, the nearer to
//                                            the mean; else g
//   mu <- a mu + (1 - a) g*,  sigma^2 <- a sigma^2 + (1 - a) (g* - mu)^2      with the new mu
//
// The first kWarmup norms are only collected: their mean and variance begin the history. A fixed
// max_grad_norm may hold besides.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace moonring::trainer {

class ZClip {
 public:
  static constexpr int kWarmup = 25;
  static constexpr double kSmoothing = 0.97, kThreshold = 2.5, kEpsilon = 1e-6;

  // The norm to which a gradient of this norm is to be clipped: less than it where it is a spike,
  // else infinity. Takes it into the history. `norm` is finite.
  double Limit(double norm);

  // The history, for a checkpoint. INVALID_ARGUMENT where the text is none.
  std::string SaveState() const;
  absl::Status LoadState(const std::string& text);

 private:
  std::vector<double> first_;  // until there are kWarmup
  double mean_ = 0.0, variance_ = 0.0;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_ZCLIP_H_
