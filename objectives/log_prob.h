#ifndef MOONRING_OBJECTIVES_LOG_PROB_H_
#define MOONRING_OBJECTIVES_LOG_PROB_H_

// Token log-probs from hidden states, in chunks of rows: [tokens, vocab] never exists, forward or
// backward.
//
//   s_t = scale * (W h_t + b)        z_t = softcap * tanh(s_t / softcap), or s_t where softcap is 0
//   log p_t = z_t[y_t] - logsumexp(z_t)
//
// With a temperature T, z_t / T takes the place of z_t everywhere, as where tokens are sampled. It
// is (softcap / T) tanh((s_t / T) / (softcap / T)): scale and softcap are divided by T, and nothing
// else changes.
//
// With label_smoothing e it is the cross entropy against (1 - e) onehot(y) + e / V, negated
// (Hugging Face's LabelSmoother, without its divisor):
//   log p_t = (1 - e) z_t[y_t] + e mean(z_t) - logsumexp(z_t)
//
// W is the head [V, D] (lm_head, or the embedding where tied), lent by a Parameter; its gradient,
// and the bias's, go to their Parameters, not into the graph. Only rows with a target are
// projected: prompts cost nothing. The matmuls run in `matmul_dtype` (logits of a bf16 matmul are
// rounded to bf16, as under autocast, and so is what the two products of a backward multiply);
// everything else from the logits on, and the sum over tokens in W's gradient, is fp32, or fp64
// where the matmul is.
//
// Backward makes each chunk's logits once more and, with P = exp(z - lse) - onehot(y) (smoothed
// alike) and g the incoming gradient,
//   dh = -scale * g * (P W)          dW = P^T (-scale * g * h)
// so g and scale touch [rows, D] and never [rows, V]. On a GPU that has the kernel
// (vocabulary/target_rows.h) a bf16 product's logits are read, and P is put in their place, in
// bf16: both products of P then take it so, with the sum over tokens in fp32.
//
// Cost, N rows with a target: 2NVD flops forward, 6NVD backward (4NVD for a frozen head), of which
// 2NVD are the logits again; where all rows are one chunk, and there is no softcap or the kernel is
// there, the chunk is kept for backward instead. Memory beyond the results: chunk_bytes of logits,
// in backward one [V, D] buffer for W's gradient, and W in matmul_dtype where it is stored
// otherwise. Throws (TORCH_CHECK) on shapes, on a target outside the vocabulary, and on a second
// derivative.

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "objectives/vocabulary/head_projection.h"

namespace moonring::objectives {

// Numbers of each row from the same logits, outside the graph.
struct Statistics {
  bool mean_logit = false;   // of z over the vocabulary
  bool greedy = false;       // the likeliest id
  bool top_entropy = false;  // entropy of the softmax over the 20 greatest logits, in nats (EAFT's
                             // measure of how open the next token is)
  bool entropy = false;      // of the softmax over all of them
};

struct TokenStatistics {  // undefined where not asked for
  at::Tensor mean_logit_T, top_entropy_T,
      entropy_T;        // in the dtype of the log-probs; 0 where there is no target
  at::Tensor greedy_T;  // int64; -1 where there is no target
};

struct LogProbOptions {
  HeadOptions head;
  double label_smoothing = 0.0;              // 0 <= e < 1
  double temperature = 1.0;                  // T > 0
  at::ScalarType matmul_dtype = at::kFloat;  // fp64 hidden states are always multiplied in fp64
  int64_t chunk_bytes = int64_t{64} << 20;   // of logits held at a time ...
  int64_t chunk_rows = 0;  // ... but of so many rows at least (head_projection.h); 0: by device
};

// hidden_TD (fp32, bf16 or fp64), targets_T (int64, kIgnore where there is nothing to predict) ->
// [T] in fp32 (fp64 for fp64), 0 where there is no target. Targets are read on the host: best they
// are there, for else a device is waited for. Differentiable in hidden_TD; T = 0 and no target at
// all give zeros with zero gradients.
at::Tensor TokenLogProb(const at::Tensor& hidden_TD,
                        const std::shared_ptr<base::Parameter>& head_VD,
                        const at::Tensor& targets_T, const LogProbOptions& options = {});

// The same, and statistics: on the CPU mean_logit takes 3% more time forward and backward, greedy
// and top_entropy 12% (tests/objectives/log_prob_benchmark.cc).
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

// What the head says at some rows, for looking at a model. Not differentiable.
RowLogits Logits(const at::Tensor& hidden_ND, const base::Parameter& head_VD, int64_t first_ids,
                 const LogProbOptions& options = {});

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_LOG_PROB_H_
