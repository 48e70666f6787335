#ifndef MOONRING_MIXERS_RULE_DELTA_RECURRENCE_H_
#define MOONRING_MIXERS_RULE_DELTA_RECURRENCE_H_

// The gated delta rule (delta_inputs.h) token by token, composed of LibTorch's differentiable
// operators: for decoding steps, and as a reference for delta_rule.h.
//
// Cost of a step: 6 H d_v d_k flops (H value heads with a state of d_v x d_k each) and one pass
// over the state for each document.

#include <vector>

#include <ATen/core/Tensor.h>

#include "mixers/rule/delta_inputs.h"

namespace moonring::mixers {

struct DeltaStepResult {
  at::Tensor out_DHV, state_DHVK;
};

// Computes one token of each of D documents: row d of `inputs` is the token of document d.
// `initial_DHVK` (undefined: zeros) has the states before these tokens.
DeltaStepResult DeltaStep(const DeltaInputs& inputs, const DeltaOptions& options);

// Computes a whole packed stream. It records autograd nodes for every token, so it is meant for
// tests and short texts.
DeltaResult DeltaRecurrence(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                            const DeltaOptions& options);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DELTA_RECURRENCE_H_
