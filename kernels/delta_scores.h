#ifndef MOONRING_KERNELS_DELTA_SCORES_H_
#define MOONRING_KERNELS_DELTA_SCORES_H_

// The computations within chunks of the gated delta rule (mixers/rule/delta_chunks.h) that come
// between LibTorch's matmuls, with one decay per token and head. q, k and V are a chunk's queries,
// keys and values, beta its step sizes, g the logarithms of its decays, K' its keys decayed from
// the chunk's start, M the state before the chunk, U the values that it writes to the state, O its
// outputs. Each computation is one pass over its tensors (operators moonring::delta_scores,
// moonring::delta_scores_backward and moonring::delta_gradients). D_ij = g_{j+1} + ... + g_i,
// summed separately for each pair of tokens i and j of a chunk.
//
//   scores     query <- tril(q k^T) exp(D);  key <- tril(k k^T, -1) exp(D)
//              inverse = (I + Diag(beta) key)^-1;  scaled = inverse Diag(beta)
//   backward   P = dO U^T, R = dr U^T, where dr is the gradient of the system's right side,
//              V - K' M^T, divided by beta;  they become
//              P <- tril(P) exp(D) = dquery exp(D);  K = -Diag(beta) tril(R, -1) exp(D);
//              R <- K + K^T, the matrix that k is multiplied by in its gradient
//              dbeta_i = -sum_j R_ij key_ij
//              dg_m = sum_{i >= m > j} (tril(P) query + K / exp(D) key)_ij
//   gradients  dq <- dq + from_start d_start_q
//              dk <- dk - beta from_start d_start_k + to_end d_end_k
//              dr <- beta dr, which is v's gradient;  dbeta <- dbeta + sum_v dr unscaled
//              dg_m <- dg_m + sum_{i >= m} from_start (d_start_q q - beta d_start_k k)
//                      + sum_{i < m} to_end d_end_k k + exp(G_C) sum dM M
//              d_start_q = dO M;  d_start_k = dr M;  d_end_k = U dM
//
// dX, d_x: the gradient of X, x. from_start, to_end, start_q, start_k, end_k, G: delta_pack.h.
// unscaled = V - K' M^T. N chunks, H heads, V and K channels of values and keys.
//
// All tensors are fp32 and contiguous: matrices [N, H, C, C], rows [N, H, C, d], columns [N, H, C,
// 1], states [N, H, V, K]; C is 64. One block of threads per chunk of a head. Memory traffic: each
// tensor named above once. Sums have a fixed order.

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kDeltaScores[] = "moonring::delta_scores";

struct DeltaInverse {
  at::Tensor inverse_NHCC, scaled_NHCC;
};

// `query` (undefined: not computed) and `key` are the products q k^T and k k^T; they are
// overwritten with the scores.
DeltaInverse DeltaScores(at::Tensor query_NHCC, at::Tensor key_NHCC, const at::Tensor& g_NHC1,
                         const at::Tensor& beta_NHC1);

struct DeltaColumns {
  at::Tensor beta_NHC1, g_NHC1;  // gradients
};

DeltaColumns DeltaScoresBackward(at::Tensor p_NHCC, at::Tensor r_NHCC, const at::Tensor& query_NHCC,
                                 const at::Tensor& key_NHCC, const at::Tensor& g_NHC1,
                                 const at::Tensor& beta_NHC1);

struct DeltaGradientRows {
  at::Tensor dq, dk, dr;  // changed in place
  at::Tensor d_start_q, d_start_k, d_end_k, q, k, unscaled;
  at::Tensor states, d_states;          // M and dM
  at::Tensor beta, from_start, to_end;  // columns
  at::Tensor dbeta, dg;                 // changed in place
};

void DeltaGradients(const DeltaGradientRows& rows);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_DELTA_SCORES_H_
