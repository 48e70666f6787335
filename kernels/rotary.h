#ifndef MOONRING_KERNELS_ROTARY_H_
#define MOONRING_KERNELS_ROTARY_H_

// Rotary position embedding of q and k in one pass (operator moonring::rotary), as in
// model/blocks/rotary.h. The first 2 F features of each head are rotated,
//
//   (a_f, b_f)  ->  (a_f cos_f - b_f sin_f, b_f cos_f + a_f sin_f)
//
// (cos_f, sin_f: of pair f's angle at the token's position), and the others are copied; `back`
// rotates in the opposite direction, which is the gradient. Pair f is features f and F + f, or 2 f
// and 2 f + 1 if `interleaved`. q_THD (T tokens, H query heads, D features) and k_TKD (K kv heads)
// are in one of fp32, fp64, bf16, fp16; cosines and arithmetic in fp32 (fp64 for fp64). T may be
// zero; rows and heads may have any stride. 2 T (H + K) D elements are read and written.

#include <utility>

#include <ATen/core/Tensor.h>

namespace moonring::kernels {

inline constexpr char kRotary[] = "moonring::rotary";

struct Turned {
  at::Tensor q_THD, k_TKD;
};
Turned Rotate(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& cos_T1F,
              const at::Tensor& sin_T1F, bool interleaved, bool back);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_ROTARY_H_
