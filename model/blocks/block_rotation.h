#ifndef MOONRING_MODEL_BLOCKS_BLOCK_ROTATION_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_ROTATION_H_

// The orthogonal matrix by which orthogonal fine-tuning turns a map's input (OFT: Qiu et al. 2023;
// on the input's side: 2025), N blocks of B features each, as PEFT 0.18 has it:
//
//   y = x R W^T,   R = diag(R_1 .. R_N),   R_n = I + D_n
//
// Each R_n is made of a skew matrix Q_n, whose numbers above the diagonal learn, row by row:
//
//   by `terms` of a series   D = 2 Q + 2 Q^2 + .. + 2 Q^(p-1) + Q^p,  p = max(3, terms - 1); with 2
//                            terms D = 2 Q, with 1 it is 0. Orthogonal up to the terms left out:
//                            the series of (I + Q) (I - Q)^-1
//   exact, terms 0           D = -2 Q (I + Q)^-1, so that R = (I - Q) (I + Q)^-1 (Cayley)
//
// The two turn opposite ways, as PEFT's do. Where Q is 0 nothing turns.
//
// Shapes: skew_NE [N, B (B - 1) / 2], D_NBB, x_TI with I = N B. Q and D are in the wide dtype
// (fp32, or fp64), x in the matmul's: D and not R is rounded to it, and x R is x + x D. No graph is
// recorded here: projection.h has the backward.
//
// Cost: 2 T I B flops to turn T rows, and (p - 1) 2 I B^2 to make D.

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace moonring::model {

struct BlockRotation {
  at::Tensor skew_NE;
  int64_t terms = 5;  // 0: exact
};

// B, of blocks with B (B - 1) / 2 numbers. Throws where there is no such B.
int64_t RotatedBlockSize(int64_t numbers);

// D_NBB.
at::Tensor RotationOf(const BlockRotation& rotation);
// dD -> d skew, for the same skew.
at::Tensor RotationBackward(const BlockRotation& rotation, const at::Tensor& gradient_NBB);

// x + x D, in x's dtype.
at::Tensor Rotate(const at::Tensor& x_TI, const at::Tensor& rotation_NBB);
// dx = dy + dy D^T.
at::Tensor RotateBackward(const at::Tensor& dy_TI, const at::Tensor& rotation_NBB);
// dD_n = x_n^T dy_n, in `rotation_NBB`'s dtype.
at::Tensor RotateBackwardOfRotation(const at::Tensor& x_TI, const at::Tensor& dy_TI,
                                    const at::Tensor& rotation_NBB);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_ROTATION_H_
