#ifndef MOONRING_MODEL_BLOCKS_ROTARY_H_
#define MOONRING_MODEL_BLOCKS_ROTARY_H_

// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) and its extensions beyond the
// pre-training context, as in Transformers 4.57 (modeling_rope_utils). With e_f = 2 f / dim, f <
// dim / 2, a token at position p rotates pair f by the angle p w_f; cosines and sines are
// multiplied by `attention_factor`. W = original_length.
//
//   default    w_f = theta^-e_f
//   linear     w_f = theta^-e_f / factor               (Chen et al. 2023, arXiv:2306.15595)
//   dynamic    w_f = theta'^-e_f, theta' = theta (factor n / W - (factor - 1))^(dim / (dim - 2)),
//              n = max(length, W)                      ("dynamic NTK")
//   yarn       between w_f and w_f / factor by a ramp over f
//                                                      (Peng et al. 2023, arXiv:2309.00071)
//   llama3     between w_f and w_f / factor by the wavelength relative to W
//   longrope   w_f / short_factor_f, or w_f / long_factor_f if length > W
//                                                      (Ding et al. 2024, arXiv:2402.13753)
//   proportional w_f / factor for the first pairs, 0 for the rest                       (Gemma 4)
//
// `length` is the length of the document that contains the token, so a document that is packed with
// others is rotated as it would be alone.
//
// Shapes: T rows, H heads, F = dim / 2 pairs. Frequencies and angles are in fp32 (fp64 on request).

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "model/config/rotary_rule.h"

namespace moonring::model {

// Returns the frequencies w_f, [F], for a document of `length` tokens.
at::Tensor InverseFrequencies(const RotaryRule& rule, int64_t length, at::ScalarType dtype);

// Cosines and sines of a micro-batch's positions, computed once and shared by all layers with the
// same rule.
struct Rotary {
  at::Tensor cos_T1F;
  at::Tensor sin_T1F;
  bool interleaved = false;
  // Position-dependent scale of queries (RotaryRule::query_growth); undefined: none. ApplyRotary
  // does not apply it: its caller multiplies the queries.
  at::Tensor query_scale_T11;
};

// positions_T and lengths_T are int64. lengths_T, the document length of each row, is required only
// if rule.depends_on_length().
Rotary MakeRotary(const RotaryRule& rule, const at::Tensor& positions_T,
                  const at::Tensor& lengths_T, at::ScalarType dtype);

// Rotates the first 2 F features of each head of x_THD, in the dtype of `rotary`; the other
// features are unchanged. The result is in x's dtype. Differentiable once.
at::Tensor ApplyRotary(const at::Tensor& x_THD, const Rotary& rotary);

// Queries and keys after ApplyRotary. Both are computed by one kernel if the GPU has it
// (kernels/choice.h).
struct TurnedHeads {
  at::Tensor q_THD, k_TKD;
};
TurnedHeads ApplyRotary(const at::Tensor& q_THD, const at::Tensor& k_TKD, const Rotary& rotary);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ROTARY_H_
