#ifndef MOONRING_OBJECTIVES_LOG_PROB_H_
#define MOONRING_OBJECTIVES_LOG_PROB_H_

// Token log-probs from hidden states, in chunks of rows: a tensor [tokens, vocab] never exists, in
// the forward or the backward.
//
//   s_t = scale * (W h_t + b)        z_t = softcap * tanh(s_t / softcap), or s_t where softcap is 0
//   log p_t = z_t[y_t] - logsumexp(z_t)
//
// With a temperature T, z_t / T replaces z_t everywhere, as in sampling. It is (softcap / T)
// tanh((s_t / T) / (softcap / T)): scale and softcap are divided by T, and nothing else changes.
//
// With label_smoothing e it is the negated cross entropy against (1 - e) onehot(y) + e / V (Hugging
// Face's LabelSmoother, without its divisor):
//   log p_t = (1 - e) z_t[y_t] + e mean(z_t) - logsumexp(z_t)
//
// h_t is the hidden state of token t (D numbers), y_t its target, one of V ids; or K targets, whose
// log-probs come from the same logits. W is the head [V, D] (lm_head, or the embedding where tied),
// with a low-rank term where it has one (vocabulary/head_low_rank.h), borrowed from a
// base::Parameter for the call (a lease, base/autograd/parameter.h). The gradients of W and b are
// added to their Parameters, not returned to autograd. Only rows with a target are projected:
// prompts cost nothing. The matmuls run in `matmul_dtype`: logits of a bf16 matmul are rounded to
// bf16, as under autocast, and so are the factors of the two products of a backward. Everything
// after the logits, and the sum over tokens in W's gradient, is in fp32, or in fp64 for an fp64
// matmul.
//
// The backward recomputes each chunk's logits. With P = exp(z - lse) - onehot(y) (smoothed alike)
// and g the incoming gradient,
//   dh = -scale * g * (P W)          dW = P^T (-scale * g * h)
// (with K targets P = sum_k g_k (exp(z - lse) - onehot(y_k)), and g is 1 elsewhere), so that g and
// scale multiply tensors [rows, D] and never [rows, V]. On a GPU with the kernel
// (vocabulary/target_rows.h) the logits of a bf16 product stay in bf16, and P overwrites them in
// bf16. Both products with P read it in bf16; the sum over tokens is in fp32.
//
// Cost for N rows with a target: 2NVD flops forward, 6NVD backward (4NVD for a frozen head), of
// which 2NVD are the recomputed logits. Where all rows are one chunk, and there is no softcap or
// the kernel is used, the chunk is saved for the backward instead of recomputed. Memory beyond the
// results: chunk_bytes of logits; in the backward one [V, D] buffer for W's gradient; and W in
// matmul_dtype where it is stored in another dtype. Throws (TORCH_CHECK) on wrong shapes, on a
// target outside the vocabulary, and on a second derivative.

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives {

// In targets [T, K], besides kIgnore: no candidate here.
inline constexpr int64_t kNoCandidate = -1;

// Statistics of each row that are computed from the same logits, without gradients.
struct Statistics {
  bool mean_logit = false;   // mean of z over the vocabulary
  bool greedy = false;       // the most likely id
  bool top_entropy = false;  // entropy of the softmax over the 20 greatest logits, in nats (EAFT's
                             // measure of uncertainty)
  bool entropy = false;      // entropy of the softmax over all logits
};

struct TokenStatistics {  // undefined if not requested
  at::Tensor mean_logit_T, top_entropy_T,
      entropy_T;        // in the dtype of the log-probs; 0 where there is no target
  at::Tensor greedy_T;  // int64; -1 where there is no target
};

struct LogProbOptions {
  HeadOptions head;
  double label_smoothing = 0.0;              // 0 <= e < 1
  double temperature = 1.0;                  // T > 0
  at::ScalarType matmul_dtype = at::kFloat;  // fp64 hidden states are always multiplied in fp64
  int64_t chunk_bytes = int64_t{64} << 20;   // of logits at a time ...
  int64_t chunk_rows = 0;  // ... but at least this many rows (head_projection.h); 0: by device
};

// hidden_TD (fp32, bf16 or fp64), targets_T (int64, kIgnore where there is nothing to predict) ->
// [T] in fp32 (fp64 for fp64), 0 where there is no target. Or targets [T, K], kIgnore or -1 where
// there is no candidate -> [T, K], 0 there; a row is projected once, where it has a candidate. With
// K = 1 the numbers are those of [T], bit for bit. On a GPU, rows of several candidates are reduced
// by operators instead of the kernel. Targets are read on the host and should
// be stored there: otherwise the device must be synchronized. Differentiable in hidden_TD. T = 0,
// or no target at all, gives zeros with zero gradients.
at::Tensor TokenLogProb(const at::Tensor& hidden_TD,
                        const std::shared_ptr<base::Parameter>& head_VD,
                        const at::Tensor& targets_T, const LogProbOptions& options = {});

// The result of TokenLogProb together with statistics. On the CPU mean_logit adds 3% to the time of
// forward and backward, greedy and top_entropy add 12% (tests/objectives/log_prob_benchmark.cc).
struct LogProbs {
  at::Tensor log_prob_T;
  TokenStatistics statistics;
};
LogProbs TokenLogProb(const at::Tensor& hidden_TD, const std::shared_ptr<base::Parameter>& head_VD,
                      const at::Tensor& targets_T, const LogProbOptions& options,
                      const Statistics& wanted);

struct RowLogits {
  at::Tensor logits_NK;  // of the ids 0 .. K-1
  at::Tensor logsumexp_N;
};

// Logits at some rows, for inspecting a model. Not differentiable.
RowLogits Logits(const at::Tensor& hidden_ND, const base::Parameter& head_VD, int64_t first_ids,
                 const LogProbOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_LOG_PROB_H_
