#ifndef MOONRING_MIXERS_RULE_DELTA_RECURRENCE_H_
#define MOONRING_MIXERS_RULE_DELTA_RECURRENCE_H_

// The gated delta rule (delta_inputs.h) token by token, composed of LibTorch's differentiable
// operators: for decoding steps, and as a reference for delta_rule.h.
//
// Cost of a step: 6 H d_v d_k flops and one pass over the state for each document.

#include <vector>

#include <ATen/core/Tensor.h>

#include "mixers/rule/delta_inputs.h"

namespace moonring::mixers {

struct DeltaStepResult {
  at::Tensor out_DHV, state_DHVK;
};

// One token of each of D documents: inputs with T = D rows, whose `initial_DHVK` (undefined: zeros)
// is the state before the token.
DeltaStepResult DeltaStep(const DeltaInputs& inputs, const DeltaOptions& options);

// A whole packed stream. Makes one autograd node for each operator of each token: for tests and
// short texts.
DeltaResult DeltaRecurrence(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                            const DeltaOptions& options);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DELTA_RECURRENCE_H_
