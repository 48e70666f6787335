#ifndef MOONRING_MIXERS_RULE_DELTA_INPUTS_H_
#define MOONRING_MIXERS_RULE_DELTA_INPUTS_H_

// Inputs and results of the gated delta rule (Gated DeltaNet), for all implementations
// (delta_rule.h, delta_recurrence.h). Each head has a state S of d_v x d_k, which is zero, or
// given, before a document's first token:
//
//   S'  = S Diag(exp(g_t))                     decay first
//   S   = S' + beta_t (v_t - S' k_t) k_t^T     then the update, = S' (I - beta k k^T) + beta v k^T
//   o_t = scale S q_t                          output after the update
//
// T tokens; Hk heads of q and k with d_k channels; H heads of v with d_v channels. beta_t is the
// step size of the update, g_t the logarithm of the decay.
//
// q and k may have fewer heads than v: H is a multiple of Hk, and consecutive value heads share a
// key head, as in Qwen3-Next. g is [T, H] (Qwen3-Next, Qwen3.5) or [T, H, d_k] (per channel: Kimi
// Linear), g <= 0; -infinity erases the state.
//
// With DeltaOptions::delta off, S' k_t is not subtracted from v_t: S = S' + beta_t v_t k_t^T. With
// k = B, v = x, q = C, beta the step size and g the step size times -exp(A) this is Mamba-2's state
// space model (Dao and Gu, arXiv:2405.21060).
//
// Arithmetic and states are in fp32, or in fp64 where v is fp64; out has the dtype of v. On a GPU
// some products of 16-bit inputs are in TF32 (fused_delta.h). Source: Yang et al., arXiv:2412.06464
// (equation 10); Transformers' Qwen3-Next (order, scale, normalization).

#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::mixers {

struct DeltaInputs {
  at::Tensor q_THK, k_THK;  // [T, Hk, d_k]
  at::Tensor v_THV;         // [T, H, d_v]
  at::Tensor g;             // logarithm of the decay: [T, H] or [T, H, d_k]
  at::Tensor beta_TH;
  at::Tensor initial_DHVK;  // initial state of each document, fp32 or fp64; undefined: zeros
};

struct DeltaOptions {
  double scale = 1.0;  // factor of o; models use 1 / sqrt(d_k)
  // Normalizes each row of q and of k first: x / sqrt(sum x^2 + eps). False: the rows are used
  // unchanged.
  bool normalize = false;
  double eps = 1e-6;
  bool delta = true;  // false: S = S' + beta v k^T
  // Maximal size of one working tensor, in numbers (packed_heads.h); 0: the device's default.
  int64_t working_numbers = 0;
};

struct DeltaResult {
  at::Tensor out_THV;
  at::Tensor final_DHVK;  // final state of each document; an empty document's is its initial state
};

// The dtype of states: fp64 for an fp64 v, else fp32.
at::ScalarType StateDtype(const DeltaInputs& inputs);

// Throws where shapes, dtypes or devices do not match, or `lengths` do not sum to T.
void CheckDeltaInputs(const DeltaInputs& inputs, const std::vector<int64_t>& lengths);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_DELTA_INPUTS_H_
