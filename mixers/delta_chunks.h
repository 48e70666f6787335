#ifndef MOONRING_MIXERS_DELTA_CHUNKS_H_
#define MOONRING_MIXERS_DELTA_CHUNKS_H_

// The gated delta rule's chunked form on a grid of chunks (document_chunks.h), without a graph.
//
// In a chunk that begins with the state M, with G_i = g_1 + ... + g_i and the scores of
// decayed_scores.h (q times scale), what each token writes is u_i, and
//
//   (I + Diag(beta) key) U = Diag(beta) (V - K' M^T),   K' = K exp(G)
//   O  = Q' M^T + query U,                              Q' = Q exp(G)
//   M+ = M Diag(exp(G_C)) + U^T K*,                     K* = K exp(G_C - G)
//
// so that with Y and W, the triangular system solved for beta V and beta K', a chunk's step of the
// scan is U = Y - W M^T and M+: two small products. On a GPU one kernel makes them for all chunks
// (kernels/delta_scan.h). All else goes in products over all chunks and heads at once. Filled
// rows have k = v = beta = g = 0: they write nothing and decay nothing.
//
// Without the delta there is nothing to solve: U = Diag(beta) V, and key and K' are not made.
//
// Backward: dM = dM+ Diag(exp(G_C)) - (dM+ K*^T) W + what comes from O; again two small products a
// chunk in the scan, the rest at once. Everything inside chunks is made again: of the forward only
// the chunks' first states are kept, T / C d_v d_k numbers a head.
//
// Cost of the forward a token and head: about 2 C (d_k + d_v) + C (d_k + d_v) + 6 d_k d_v flop
// times two; backward about three times that. Source: Yang et al., arXiv:2406.06484 (WY form),
// arXiv:2412.06464 (with decay).

#include <ATen/core/Tensor.h>

#include "mixers/document_chunks.h"

namespace moonring::mixers {

// All of one dtype, contiguous: [N, H, C, ...].
struct DeltaChunks {
  at::Tensor q, k;  // d_k; q times scale; undefined where no output is wanted
  at::Tensor v;     // d_v
  at::Tensor g;     // d_k or 1
  at::Tensor beta;  // 1
  bool delta = true;
};

struct DeltaScan {
  at::Tensor out_NHCV;     // undefined without q
  at::Tensor states_NHVK;  // before each chunk
  at::Tensor final_DHVK;
};

// `first_DHVK` in the grid's order of documents.
DeltaScan ScanChunks(const DeltaChunks& chunks, const DocumentChunks& grid,
                     const at::Tensor& first_DHVK);

struct DeltaChunkGradients {
  DeltaChunks chunks;
  at::Tensor first_DHVK;
};

// `final_DHVK`: the gradient of the last states; not undefined.
DeltaChunkGradients ScanChunksBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                                       const at::Tensor& states_NHVK, const at::Tensor& out_NHCV,
                                       const at::Tensor& final_DHVK);

// `first_DHVK` of it alone: about a third of the arithmetic. It does not depend on the states.
at::Tensor FirstStatesBackward(const DeltaChunks& chunks, const DocumentChunks& grid,
                               const at::Tensor& out_NHCV, const at::Tensor& final_DHVK);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_DELTA_CHUNKS_H_
