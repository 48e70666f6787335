#ifndef MOONRING_KERNELS_ROTARY_H_
#define MOONRING_KERNELS_ROTARY_H_

// Rotary position embedding of q and k in one pass (operator moonring::rotary), as
// model/blocks/rotary.h has it: of each head the first 2 F features turn,
//
//   (a_f, b_f)  ->  (a_f cos_f - b_f sin_f, b_f cos_f + a_f sin_f)
//
// and the others pass; `back` turns the other way, which is the gradient. Pair f is features f and
// F + f, or 2 f and 2 f + 1 where `interleaved`. q_THD and k_TKD in one of fp32, fp64, bf16, fp16;
// cosines and arithmetic in fp32 (fp64 for fp64). Any T, zero among them; rows and heads may be any
// distance apart. 2 T (H + K) D elements are moved.

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
