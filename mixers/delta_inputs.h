#ifndef MOONRING_MIXERS_DELTA_INPUTS_H_
#define MOONRING_MIXERS_DELTA_INPUTS_H_

// What the gated delta rule is given and gives, whatever computes it (delta_rule.h,
// delta_recurrence.h). For each head, with a state S of d_v x d_k that is zero, or given, before a
// document's first token:
//
//   S'  = S Diag(exp(g_t))                     decay first
//   S   = S' + beta_t (v_t - S' k_t) k_t^T     then the update, = S' (I - beta k k^T) + beta v k^T
//   o_t = scale S q_t                          read after the update
//
// q and k may have fewer heads than v: H is a multiple of Hk, and consecutive value heads share a
// key head, as in Qwen3-Next. g is [T, H] (Qwen3-Next, Qwen3.5) or [T, H, d_k] (by channel: Kimi
// Linear), g <= 0; -infinity forgets all.
//
// Without the delta the update writes v whatever the state has for k: S = S' + beta_t v_t k_t^T.
// With k = B, v = x, q = C, beta the step and g the step times -exp(A) that is Mamba-2's state
// space (Dao and Gu, arXiv:2405.21060).
//
// Arithmetic and states are in fp32, or fp64 where v is fp64; out has the dtype of v. On a GPU some
// products of 16-bit inputs are in TF32 (fused_delta.h).
// Source: Yang et al., arXiv:2412.06464 (equation 10); Transformers' Qwen3-Next (order, scale,
// normalization).

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

struct DeltaInputs {
  at::Tensor q_THK, k_THK;  // [T, Hk, d_k]
  at::Tensor v_THV;         // [T, H, d_v]
  at::Tensor g;             // the decay's logarithm: [T, H] or [T, H, d_k]
  at::Tensor beta_TH;
  at::Tensor initial_DHVK;  // each document's first state, fp32 or fp64; undefined: zeros
};

struct DeltaOptions {
  double scale = 1.0;  // of o; the families take 1 / sqrt(d_k)
  // x / sqrt(sum x^2 + eps) of each row of q and of k, before all else. Off: the caller has done
  // so.
  bool normalize = false;
  double eps = 1e-6;
  bool delta = true;  // off: S = S' + beta v k^T
  // Of what goes together (packed_heads.h); 0: as the device has them.
  int64_t working_numbers = 0;
};

struct DeltaResult {
  at::Tensor out_THV;
  at::Tensor final_DHVK;  // each document's last state; of an empty one its first
};

// fp64 for an fp64 v, else fp32.
at::ScalarType StateDtype(const DeltaInputs& inputs);

// Throws where shapes, dtypes or devices do not fit; `lengths` sum to T.
void CheckDeltaInputs(const DeltaInputs& inputs, const std::vector<int64_t>& lengths);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_DELTA_INPUTS_H_
