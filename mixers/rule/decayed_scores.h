#ifndef MOONRING_MIXERS_RULE_DECAYED_SCORES_H_
#define MOONRING_MIXERS_RULE_DECAYED_SCORES_H_

// Products of queries and keys within chunks of a linear attention, weighted by the decay between
// the two tokens: the matrices of the gated delta rule's chunked form.
//
//   query_ij = sum_d q_id k_jd exp(D_ijd)  for j <= i,
//   key_ij   = sum_d k_id k_jd exp(D_ijd)  for j < i, zeros elsewhere;
//   D_ij     = g_{j+1} + ... + g_i
//
// q, k: [N, H, C, d_k] for N chunks of C tokens (a power of two). g <= 0: [N, H, C, 1], one decay
// for all channels of a head, or [N, H, C, d_k]. query, key: [N, H, C, C].
//
// Exponents are never above 0, so that nothing overflows, and each is a sum of its own terms, not a
// difference of long sums: accuracy does not degrade after a strong decay. With one decay per head,
// D is a matrix of running sums. As g_m occurs in D_ij for j < m <= i, the gradients of all g_m are
// one running sum, over the differences between column sums and row sums of D's gradient. With a
// decay per channel, the lower triangle is cut into squares (one of side C/2, two of C/4, ...). In
// each square, all i are after a boundary b and all j before it, so D_ij = D_ib + D_bj. The square
// is then one product of (q_i exp(D_ib)) and (k_j exp(D_bj)). All squares of one side are one
// batched product, so the sides C/2 ... 1 take log2(C) of them, and no tensor of C x C x d_k
// exists.
//
// If the products of keys are not requested, `key` is undefined, and so is its gradient.
//
// Cost: at most 4 N H C^2 d_k flops; memory: a few tensors of the sizes of the inputs and results.
// Source: Yang et al., arXiv:2412.06464; the squares are as in a parallel prefix sum.

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

struct Scores {
  at::Tensor query_NHCC, key_NHCC;
  at::Tensor decay_NHCC;  // exp(D) on and below the diagonal; undefined for a decay per channel
};

Scores DecayedScores(const at::Tensor& q_NHCK, const at::Tensor& k_NHCK, const at::Tensor& g_NHCX,
                     bool of_keys = true);

struct ScoreGradients {
  at::Tensor q_NHCK, k_NHCK, g_NHCX;
};

// `made` is the result of DecayedScores on the same inputs. Gradients outside the lower triangles
// are ignored.
ScoreGradients DecayedScoresBackward(const Scores& gradients, const Scores& made,
                                     const at::Tensor& q_NHCK, const at::Tensor& k_NHCK,
                                     const at::Tensor& g_NHCX);

// Exclusive running sums of x [..., C, X] along C. SumBefore: the sum of all earlier elements;
// SumAfter: of all later elements.
at::Tensor SumBefore(const at::Tensor& x);
at::Tensor SumAfter(const at::Tensor& x);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DECAYED_SCORES_H_
