#ifndef MOONRING_MIXERS_DECAYED_SCORES_H_
#define MOONRING_MIXERS_DECAYED_SCORES_H_

// Products of queries and keys inside chunks of a linear attention, each weighed by the decay
// between the two tokens: the matrices of the gated delta rule's chunked form.
//
//   query_ij = sum_d q_id k_jd exp(D_ijd)  for j <= i,   key_ij = sum_d k_id k_jd exp(D_ijd)  for
//   j < i, zeros elsewhere;   D_ij = g_{j+1} + ... + g_i
//
// q, k: [N, H, C, d_k] for N chunks of C tokens (a power of two). g <= 0: [N, H, C, 1], one decay
// for all of a head's channels, or [N, H, C, d_k]. query, key: [N, H, C, C].
//
// Exponents are never above 0, so that nothing overflows, and each is a sum of its own terms, not a
// difference of long sums: as exact after a strong decay as before it. With one decay a head D is a
// matrix of running sums, and the gradient of g_m, which is in D_ij for j < m <= i, one running sum
// of the differences of their gradients' columns and rows. By channel, the lower triangle is cut
// into squares (of side C/2, twice C/4, ...); in a square all i come after its border b and all j
// before, D_ij = D_ib + D_bj, and the square is one product of (q_i exp(D_ib)) and (k_j exp(D_bj)):
// C/2 ... 1, log2(C) products, no tensor of C x C x d_k.
//
// Cost: 4 N H C^2 d_k flop at most; memory of a few inputs and results.
// Source: Yang et al., arXiv:2412.06464; the squares: as a parallel prefix sum has them.

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

struct Scores {
  at::Tensor query_NHCC, key_NHCC;
  at::Tensor decay_NHCC;  // exp(D) on and below the diagonal; undefined by channel
};

Scores DecayedScores(const at::Tensor& q_NHCK, const at::Tensor& k_NHCK, const at::Tensor& g_NHCX);

struct ScoreGradients {
  at::Tensor q_NHCK, k_NHCK, g_NHCX;
};

// `made` is what DecayedScores gave; gradients outside the lower triangles are ignored.
ScoreGradients DecayedScoresBackward(const Scores& gradients, const Scores& made,
                                     const at::Tensor& q_NHCK, const at::Tensor& k_NHCK,
                                     const at::Tensor& g_NHCX);

// Of x [..., C, X], along C: the sums of all earlier and of all later terms, without the own one.
at::Tensor SumBefore(const at::Tensor& x);
at::Tensor SumAfter(const at::Tensor& x);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_DECAYED_SCORES_H_
