#ifndef MOONRING_MODEL_BLOCKS_ROTARY_H_
#define MOONRING_MODEL_BLOCKS_ROTARY_H_

// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) and the ways to stretch it beyond
// the context of pre-training, as Transformers 4.57 has them (modeling_rope_utils). With e_f = 2 f
// / dim, f < dim / 2, a token at position p turns pair f by the angle p w_f; cosines and sines are
// multiplied by `attention_factor`. W = original_length.
//
//   default    w_f = theta^-e_f
//   linear     w_f = theta^-e_f / factor                                                    (Chen
//              et al. 2023, arXiv:2306.15595)
//   dynamic    w_f = theta'^-e_f, theta' = theta (factor n / W - (factor - 1))^(dim / (dim - 2)), n
//              = max(length, W)   ("dynamic NTK")
//   yarn       between w_f and w_f / factor by a ramp over f                                (Peng
//              et al. 2023, arXiv:2309.00071)
//   llama3     between w_f and w_f / factor by the wave's length beside W
//   longrope   w_f / short_factor_f, or w_f / long_factor_f where length > W                (Ding
//              et al. 2024, arXiv:2402.13753)
//   proportional w_f / factor for the first pairs, 0 for the rest                       (Gemma 4)
//
// `length` is that of the token's own document, whatever its positions are: a document in a pack
// turns as it would alone.
// Shapes: T rows, H heads, F = dim / 2 pairs. Angles are in fp32 (fp64 where asked for) from the
// frequencies on.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "model/config/rotary_rule.h"

namespace moonring::model {

// [F] for a document of `length` tokens.
at::Tensor InverseFrequencies(const RotaryRule& rule, int64_t length, at::ScalarType dtype);

// Cosines and sines of a micro-batch's positions, made once and shared by all layers that turn so.
struct Rotary {
  at::Tensor cos_T1F;
  at::Tensor sin_T1F;
  bool interleaved = false;
  at::Tensor query_scale_T11;  // of queries that grow with their position (RotaryRule); undefined:
                               // they do not. Who turns queries multiplies them by it
};

// positions_T int64; lengths_T, int64, is wanted where the rule depends on the length.
Rotary MakeRotary(const RotaryRule& rule, const at::Tensor& positions_T,
                  const at::Tensor& lengths_T, at::ScalarType dtype);

// x_THD in its own dtype, its first 2 F features turned in the rotary's; the others pass.
// Differentiable once.
at::Tensor ApplyRotary(const at::Tensor& x_THD, const Rotary& rotary);

// That of queries and keys: one kernel where a GPU has it (kernels/choice.h).
struct TurnedHeads {
  at::Tensor q_THD, k_TKD;
};
TurnedHeads ApplyRotary(const at::Tensor& q_THD, const at::Tensor& k_TKD, const Rotary& rotary);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ROTARY_H_
