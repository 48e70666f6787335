#ifndef MOONRING_MIXERS_RULE_DELTA_CHUNKS_H_
#define MOONRING_MIXERS_RULE_DELTA_CHUNKS_H_

// The chunked form of the gated delta rule on a grid of chunks (document_chunks.h), without an
// autograd graph.
//
// In a chunk that begins with the state M, with G_i = g_1 + ... + g_i and the scores of
// decayed_scores.h (q times scale), u_i is the value that token i writes, and
//
//   (I + Diag(beta) key) U = Diag(beta) (V - K' M^T),   K' = K exp(G)
//   O  = Q' M^T + query U,                              Q' = Q exp(G)
//   M+ = M Diag(exp(G_C)) + U^T K*,                     K* = K exp(G_C - G)
//
// Let Y and W be the solutions of the triangular system for beta V and beta K'. Then a chunk's step
// of the scan is U = Y - W M^T and M+: two small products. On a GPU one kernel computes them for
// all chunks (kernels/delta_scan.h). Everything else is done by products over all chunks and
// heads at once. Padding rows have k = v = beta = g = 0: they neither write nor decay.
//
// Without the delta there is no system to solve: U = Diag(beta) V, and key and K' are not computed.
//
// Backward: dM = dM+ Diag(exp(G_C)) - (dM+ K*^T) W + the contribution of O. Again the scan has two
// small products per chunk, and the rest is done at once. Everything inside chunks is recomputed:
// of the forward only the chunks' initial states are saved, T / C d_v d_k numbers per head.
//
// Cost of the forward per token and head: about 2 (2 C (d_k + d_v) + C (d_k + d_v) + 6 d_k d_v)
// flops; the backward about three times that. Source: Yang et al., arXiv:2406.06484 (WY form),
// arXiv:2412.06464 (with decay).

#include <ATen/core/Tensor.h>

#include "mixers/rule/document_chunks.h"

namespace moonring::mixers {

// All of one dtype, contiguous: [N, H, C, ...].
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

// `first_DHVK`: initial states, in the grid's order of documents.
DeltaScan ScanChunks(const DeltaChunks& chunks, const DocumentChunks& grid,
                     const at::Tensor& first_DHVK);

struct DeltaChunkGradients {
  DeltaChunks chunks;
  at::Tensor first_DHVK;
};

// `final_DHVK`: the gradient of the final states; must be defined.
DeltaChunkGradients ScanChunksBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                                       const at::Tensor& states_NHVK, const at::Tensor& out_NHCV,
                                       const at::Tensor& final_DHVK);

// Computes only the gradient of `first_DHVK`, which does not depend on the states: about a third of
// the arithmetic.
at::Tensor FirstStatesBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                               const at::Tensor& out_NHCV, const at::Tensor& final_DHVK);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DELTA_CHUNKS_H_
