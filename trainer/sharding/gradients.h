#ifndef MOONRING_TRAINER_SHARDING_GRADIENTS_H_
#define MOONRING_TRAINER_SHARDING_GRADIENTS_H_

// Sums the gradients of a step over ranks, computes norms, and clips. Gradients are summed, not
// averaged: each rank's gradient is its tokens' contribution to the step's loss, which was divided
// by the global count before the backward pass.
//
// Frozen parameters are ignored.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/autograd/parameter.h"
#include "comm/communicator.h"

namespace moonring::trainer {

struct GradientSumOptions {
  int64_t bucket_bytes = int64_t{32} << 20;  // maximum size of a bucket; larger gradients are split
};

// Sums each gradient over the group, in place. If only some ranks have a gradient for a parameter,
// the other ranks add zeros; if no rank has one, the parameter stays without a gradient. A
// collective: every rank must pass the same parameters in the same order. In a group of 1 nothing
// is sent. FAILED_PRECONDITION if a gradient is summed already (Parameter::is_summed), or is stored
// by states (states.h). Cost: one all-reduce of 8 bytes per parameter, then one per bucket in the
// gradients' dtype (fp32, fp64). Memory: one bucket.
absl::Status SumGradients(const base::Parameters& parameters, comm::Communicator& group,
                          GradientSumOptions options = {});

// The message for a second sum without ClearGradient in between.
std::string AlreadySummed(const std::string& name);

// The norm of all gradients: sqrt of the sum of squares, in fp64, in an order that depends on
// neither threads nor ranks. NaN or infinite if a gradient is. On a device: a few operators for all
// gradients, no copies, and one synchronization for 8 bytes.
double GlobalNorm(const base::Parameters& parameters);
// The square of GlobalNorm.
double SumOfSquares(const base::Parameters& parameters);
// The sum of squares of each gradient; 0 for parameters without one. On a device: one
// synchronization, for 8 bytes per parameter.
std::vector<double> SumsOfSquares(const base::Parameters& parameters);

// Multiplies every gradient by min(1, max_norm / (norm + 1e-6)), like
// torch.nn.utils.clip_grad_norm_, and returns that factor. max_norm 0: no clipping. Throws if norm
// is non-finite, because scaling would spread the NaN. If the gradients are scaled by `loss_scale`
// (`norm` is unscaled), they are divided by it in the same pass; this is exact if loss_scale is a
// power of two (except for subnormal results).
double ClipByNorm(const base::Parameters& parameters, double norm, double max_norm,
                  double loss_scale = 1.0);

// The names of parameters with a NaN or infinity in their gradient, for an error message.
std::vector<std::string> NonFiniteGradients(const base::Parameters& parameters);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_SHARDING_GRADIENTS_H_
