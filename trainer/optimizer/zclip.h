#ifndef MOONRING_TRAINER_OPTIMIZER_ZCLIP_H_
#define MOONRING_TRAINER_OPTIMIZER_ZCLIP_H_

// ZClip: adaptive clipping of spikes in the gradient norm (Kumar, Owen, Chowdhury, Guera 2025,
// "ZClip: Adaptive Spike Mitigation for LLM Pre-Training", arXiv:2504.02507), with the paper's
// constants.
//
//   z  = (g - mu) / sigma                    g: the norm; mu and sigma^2: its running mean and
//                                            variance
//   g* = mu + (kThreshold^2 / z) sigma       if z > kThreshold (larger spikes are clipped closer to
//                                            the mean); otherwise g
//   mu <- a mu + (1 - a) g*,  sigma^2 <- a sigma^2 + (1 - a) (g* - mu)^2      with the new mu
//
// a is kSmoothing. The first kWarmup norms are only collected; their mean and variance initialize
// mu and sigma^2. A fixed max_grad_norm can be applied in addition.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace moonring::trainer {

class ZClip {
 public:
  static constexpr int kWarmup = 25;
  static constexpr double kSmoothing = 0.97, kThreshold = 2.5, kEpsilon = 1e-6;

  // Adds `norm` (finite) to the history. Returns the norm to clip to: less than `norm` for a spike,
  // otherwise infinity.
  double Limit(double norm);

  // SaveState returns the history as text, for a checkpoint. LoadState returns INVALID_ARGUMENT for
  // malformed text.
  std::string SaveState() const;
  absl::Status LoadState(const std::string& text);

 private:
  std::vector<double> first_;  // the first kWarmup norms
  double mean_ = 0.0, variance_ = 0.0;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_ZCLIP_H_
