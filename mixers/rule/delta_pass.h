#ifndef MOONRING_MIXERS_RULE_DELTA_PASS_H_
#define MOONRING_MIXERS_RULE_DELTA_PASS_H_

// Forward and backward of the gated delta rule (delta_inputs.h) over a grid of chunks
// (document_chunks.h). No autograd graph is recorded: these functions are called inside autograd
// nodes (delta_rule.h, relay_mixing.h).
//
// A limited number of heads and chunks is processed at a time (TilesOf, packed_heads.h). A GPU uses
// kernels where they support the inputs (fused_delta.h). Cost: see delta_chunks.h.

#include "mixers/rule/delta_inputs.h"
#include "mixers/rule/document_chunks.h"

namespace moonring::mixers {

struct DeltaPass {
  at::Tensor out_THV;
  at::Tensor final_DHVK;   // final state of each document; an empty document's is its initial state
  at::Tensor states_NHVK;  // the state before each chunk: saved for the backward, with the inputs
};

DeltaPass DeltaForward(const DeltaInputs& inputs, const DocumentChunks& grid,
                       const DeltaOptions& options);

// Returns the gradients of all inputs, from the gradients of the outputs and of the final states
// (undefined: zeros). `initial_DHVK` of `inputs` is not read.
DeltaInputs DeltaBackward(const DeltaInputs& inputs, const at::Tensor& states_NHVK,
                          const DocumentChunks& grid, const DeltaOptions& options,
                          const at::Tensor& d_out_THV, const at::Tensor& d_final_DHVK);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DELTA_PASS_H_
