#ifndef MOONRING_MIXERS_DELTA_PASS_H_
#define MOONRING_MIXERS_DELTA_PASS_H_

// Forward and backward of the gated delta rule (delta_inputs.h) over a grid of chunks, without a
// graph: what a node of autograd's graph is made of (delta_rule.h, relay_mixing.h).
//
// Some heads and some chunks go at a time (TilesOf, packed_heads.h). On a GPU by kernels where they
// take the inputs (fused_delta.h). Cost: delta_chunks.h.

#include "mixers/delta_inputs.h"
#include "mixers/document_chunks.h"

namespace moonring::mixers {

struct DeltaPass {
  at::Tensor out_THV;
  at::Tensor final_DHVK;   // each document's last state; of an empty one its first
  at::Tensor states_NHVK;  // before each chunk: what backward needs beside the inputs
};

DeltaPass DeltaForward(const DeltaInputs& inputs, const DocumentChunks& grid,
                       const DeltaOptions& options);

// Gradients of all inputs, from those of `out` and of the last states (undefined: zeros).
// `initial_DHVK` of `inputs` is not read.
DeltaInputs DeltaBackward(const DeltaInputs& inputs, const at::Tensor& states_NHVK,
                          const DocumentChunks& grid, const DeltaOptions& options,
                          const at::Tensor& d_out_THV, const at::Tensor& d_final_DHVK);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_DELTA_PASS_H_
