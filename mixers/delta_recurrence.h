#ifndef MOONRING_MIXERS_DELTA_RECURRENCE_H_
#define MOONRING_MIXERS_DELTA_RECURRENCE_H_

// The gated delta rule (delta_inputs.h) token by token, of LibTorch's differentiable operators: a
// sampler's step, and a second source for delta_rule.h.
//
// Cost of a step: 6 H d_v d_k flop and one pass over the state for each document.

#include <vector>

#include <ATen/core/Tensor.h>

#include "mixers/delta_inputs.h"

namespace moonring::mixers {

struct DeltaStepResult {
  at::Tensor out_DHV, state_DHVK;
};

// One token of each of D documents: inputs of T = D rows, whose `initial_DHVK` (undefined: zeros)
// is the state before the token.
DeltaStepResult DeltaStep(const DeltaInputs& inputs, const DeltaOptions& options);

// A whole packed stream. One node of autograd's graph for each operator of each token: for tests
// and short texts.
DeltaResult DeltaRecurrence(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                            const DeltaOptions& options);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_DELTA_RECURRENCE_H_
