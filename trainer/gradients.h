#ifndef MOONRING_TRAINER_GRADIENTS_H_
#define MOONRING_TRAINER_GRADIENTS_H_

// The gradients of a step: summed over ranks, measured, clipped. A sum, never a mean: each rank's
// gradient is its own tokens' share of the whole step's loss, which was divided by the step's
// global count before backward.
//
// Frozen parameters take no part anywhere here.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"
#include "comm/communicator.h"

namespace moonring::trainer {

struct GradientSumOptions {
  int64_t bucket_bytes = int64_t{32}
                         << 20;  // a bucket never holds more; a large gradient is cut over several
};

// Sums each gradient over the group, in place. A parameter with no gradient on this rank takes part
// as zeros; one with none on any rank is left without. Every rank must hold the same parameters in
// the same order, and must call it. Nothing is done in a group of 1. Cost: one all-reduce of 8
// bytes a parameter, then one a bucket of the gradients' own dtype (fp32, fp64); memory: one
// bucket.
absl::Status SumGradients(const base::Parameters& parameters, comm::Communicator& group,
                          GradientSumOptions options = {});

// sqrt(sum of all gradients' squares), in fp64, in an order that depends on neither threads nor
// ranks. NaN or infinite where a gradient is. On a device: a few operators for all gradients, no
// copy of any, and one wait, for 8 bytes.
double GlobalNorm(const base::Parameters& parameters);
// Its square.
double SumOfSquares(const base::Parameters& parameters);
// The squares' sum of each; 0 of those without a gradient. One wait for a device here too, for 8
// bytes a parameter.
std::vector<double> SumsOfSquares(const base::Parameters& parameters);

// Scales every gradient by min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_
// does, and returns that factor. max_norm 0: no clipping. Throws where norm is not finite: scaling
// by it would spread the NaN. Of gradients that are `loss_scale` times what they stand for, as is
// not `norm`: divides them by it in the same pass, exactly where it is a power of two (but for
// numbers below the least normal one).
double ClipByNorm(const base::Parameters& parameters, double norm, double max_norm,
                  double loss_scale = 1.0);

// The names of the parameters whose gradient holds a NaN or an infinity, for an error message.
std::vector<std::string> NonFiniteGradients(const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_GRADIENTS_H_
