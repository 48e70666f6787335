#ifndef MOONRING_MIXERS_RULE_DELTA_CHUNKS_H_
#define MOONRING_MIXERS_RULE_DELTA_CHUNKS_H_

// The chunked form of the gated delta rule (delta_inputs.h). Documents are divided into chunks of C
// tokens, which form a grid (document_chunks.h). No autograd graph is recorded.
//
// Consider a chunk with the queries, keys and values Q, K and V, the step sizes beta, the
// logarithms of decays g, the initial state M, the final state M+ and the outputs O. Let G_i = g_1
// + ... + g_i, and let `key` and `query` be the matrices of decayed_scores.h, for q times scale.
// The value that token i writes to the state is u_i, a row of U:
//
//   (I + Diag(beta) key) U = Diag(beta) (V - K' M^T),   K' = K exp(G)
//   O  = Q' M^T + query U,                              Q' = Q exp(G)
//   M+ = M Diag(exp(G_C)) + U^T K*,                     K* = K exp(G_C - G)
//
// Let Y and W be the solutions of the triangular system for the right-hand sides Diag(beta) V and
// Diag(beta) K'. A scan over the chunks then computes U = Y - W M^T and M+ for each chunk: two
// small products. On a GPU one kernel does this for all chunks (kernels/delta_scan.h). Everything
// else is computed by products over all chunks and heads at once. Padding rows have k = v = beta =
// g = 0: they neither write nor decay.
//
// With DeltaOptions::delta off there is no system to solve: U = Diag(beta) V, and key and K' are
// not computed.
//
// Backward: dM = dM+ Diag(exp(G_C)) - (dM+ K*^T) W + the contribution of O. As in the forward, a
// scan has two small products per chunk, and the rest is computed for all chunks at once. Only the
// initial states of the chunks are saved by the forward, T / C d_v d_k numbers per head; everything
// inside chunks is recomputed.
//
// Cost of the forward per token and head: about 2 (2 C (d_k + d_v) + C (d_k + d_v) + 6 d_k d_v)
// flops; the backward about three times that. Source: Yang et al., arXiv:2406.06484 (WY form),
// arXiv:2412.06464 (with decay).

#include <ATen/core/Tensor.h>

#include "mixers/rule/document_chunks.h"

namespace moonring::mixers {

// Inputs in chunks. All tensors have one dtype and are contiguous [N, H, C, ...].
struct DeltaChunks {
  at::Tensor q, k;  // last dim d_k; q is multiplied by scale, and undefined if no output is needed
  at::Tensor v;     // last dim d_v
  at::Tensor g;     // last dim d_k or 1
  at::Tensor beta;  // last dim 1
  bool delta = true;
};

struct DeltaScan {
  at::Tensor out_NHCV;     // undefined without q
  at::Tensor states_NHVK;  // the state before each chunk
  at::Tensor final_DHVK;
};

// Computes outputs and states. `first_DHVK`: the documents' initial states, in the grid's order of
// documents.
DeltaScan ScanChunks(const DeltaChunks& chunks, const DocumentChunks& grid,
                     const at::Tensor& first_DHVK);

struct DeltaChunkGradients {
  DeltaChunks chunks;
  at::Tensor first_DHVK;
};

// `out_NHCV`: the gradient of the output. `final_DHVK`: the gradient of the documents' final
// states; must be defined.
DeltaChunkGradients ScanChunksBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                                       const at::Tensor& states_NHVK, const at::Tensor& out_NHCV,
                                       const at::Tensor& final_DHVK);

// Computes only the gradient of `first_DHVK`, which does not depend on the states: about a third of
// the arithmetic.
at::Tensor FirstStatesBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                               const at::Tensor& out_NHCV, const at::Tensor& final_DHVK);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DELTA_CHUNKS_H_
