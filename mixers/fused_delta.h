#ifndef MOONRING_MIXERS_FUSED_DELTA_H_
#define MOONRING_MIXERS_FUSED_DELTA_H_

// delta_chunks.h and what span.h has of it on a GPU: products over all chunks and heads by
// LibTorch's operators, in fp32, and kernels for what lies between them: packing with norms and
// decays, scores and their inverse, the scan, gradients and unpacking (comm/kernels/delta_pack.h,
// delta_scores.h, delta_scan.h). The same equations, with beta in the inverse instead of in the
// right sides:
//
//   inverse = (I + Diag(beta) key)^-1;  U = inverse Diag(beta) (V - K' M^T);  W = inverse
//   Diag(beta) K'
//
// For inputs in fp32, bf16 or fp16 with one decay a head and d_k up to 256; others, and what has no
// delta, go by delta_chunks.h, whose scan is the kernel too.
// Cost: some 20 operators forward and 40 backward for the heads that go together, whatever the
// number of chunks; backward holds some 25 tensors of 64 MiB at most, or of one key head.

#include "mixers/delta_inputs.h"
#include "mixers/document_chunks.h"

namespace moonring::mixers {

bool UseFusedDelta(const DeltaInputs& inputs, const DocumentChunks& grid,
                   const DeltaOptions& options);

// What is written: as DeltaPass has it.
struct FusedDeltaOutputs {
  at::Tensor out_THV, final_DHVK, states_NHVK;
};

// `first_DHVK` in the grid's order.
void FusedDeltaForward(const DeltaInputs& inputs, const DocumentChunks& grid,
                       const DeltaOptions& options, const at::Tensor& first_DHVK,
                       const FusedDeltaOutputs& outputs);

// Into `gradients`, tensors of the inputs' shapes; `d_last_DHVK` in the grid's order.
void FusedDeltaBackward(const DeltaInputs& inputs, const at::Tensor& states_NHVK,
                        const DocumentChunks& grid, const DeltaOptions& options,
                        const at::Tensor& d_out_THV, const at::Tensor& d_last_DHVK,
                        const DeltaInputs& gradients);

// The last states alone, of `inputs` without q: [D, H, V, K] in the grid's order.
at::Tensor FusedLastStates(const DeltaInputs& inputs, const DocumentChunks& grid,
                           const DeltaOptions& options, const at::Tensor& first_DHVK);

// The gradient of the first states alone, from that of the outputs: [D, H, V, K] in the grid's
// order, in fp32. The inputs' v is not read.
at::Tensor FusedFirstStatesBackward(const DeltaInputs& inputs, const DocumentChunks& grid,
                                    const DeltaOptions& options, const at::Tensor& d_out_THV);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_FUSED_DELTA_H_
