#ifndef MOONRING_MODEL_BLOCKS_BLOCK_ROTATION_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_ROTATION_H_

// The orthogonal matrix that OFT applies to a map's input (orthogonal fine-tuning, Qiu et al. 2023;
// applied to the input since Qiu et al. 2025). It has N blocks of B features each, as PEFT 0.18
// defines it:
//
//   y = x R W^T,   R = diag(R_1 .. R_N),   R_n = I + D_n
//
// Each R_n is computed from a skew-symmetric matrix Q_n, whose entries above the diagonal are
// trained, stored row by row:
//
//   by `terms` of a series   D = 2 Q + 2 Q^2 + .. + 2 Q^(p-1) + Q^p,  p = max(3, terms - 1); with 2
//                            terms D = 2 Q, with 1 it is 0. Orthogonal up to the truncated terms of
//                            the series of (I + Q) (I - Q)^-1
//   exact, terms 0           D = -2 Q (I + Q)^-1, so that R = (I - Q) (I + Q)^-1 (Cayley)
//
// The series and the exact form rotate in opposite directions, as in PEFT. With Q = 0, R is the
// identity.
//
// Shapes: skew_NE [N, B (B - 1) / 2], D_NBB, x_TI with I = N B. Q and D are in fp32 (or fp64), x in
// the matmul dtype. x R is computed as x + x D, so that only D is rounded to the matmul dtype.
// These functions record no autograd graph: projection.h has the backward.
//
// Cost: 2 T I B flops to rotate T rows, and (p - 1) 2 I B^2 to compute D.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::model {

struct BlockRotation {
  at::Tensor skew_NE;
  int64_t terms = 5;  // 0: exact
};

// Returns the block size B for which B (B - 1) / 2 equals `numbers`. Throws if no integer B does.
int64_t RotatedBlockSize(int64_t numbers);

// Computes D from the skew entries.
at::Tensor RotationOf(const BlockRotation& rotation);
// Returns the gradient of `rotation`'s skew entries, given the gradient of D.
at::Tensor RotationBackward(const BlockRotation& rotation, const at::Tensor& gradient_NBB);

// Returns x R = x + x D, in x's dtype.
at::Tensor Rotate(const at::Tensor& x_TI, const at::Tensor& rotation_NBB);
// Returns the gradient of x: dx = dy + dy D^T.
at::Tensor RotateBackward(const at::Tensor& dy_TI, const at::Tensor& rotation_NBB);
// Returns the gradient of D, dD_n = x_n^T dy_n, in the dtype of rotation_NBB.
at::Tensor RotateBackwardOfRotation(const at::Tensor& x_TI, const at::Tensor& dy_TI,
                                    const at::Tensor& rotation_NBB);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_ROTATION_H_
