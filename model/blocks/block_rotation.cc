#include "model/blocks/block_rotation.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/zeros.h>

namespace moonring::model {
namespace {

// Indices of the entries above the diagonal in a flattened block, row by row.
at::Tensor AboveDiagonal(int64_t size, const at::Tensor& like) {
  const at::Tensor places_2E = at::triu_indices(size, size, 1, like.options().dtype(at::kLong));
  return places_2E[0] * size + places_2E[1];
}

at::Tensor SkewOf(const at::Tensor& skew_NE) {
  const int64_t blocks = skew_NE.size(0), size = RotatedBlockSize(skew_NE.size(1));
  at::Tensor above = at::zeros({blocks, size * size}, skew_NE.options());
  above.index_copy_(1, AboveDiagonal(size, skew_NE), skew_NE);
  above = above.view({blocks, size, size});
  return above - above.transpose(1, 2);
}

// Gradient of the skew entries s, given that of Q, where q_ij = s_ij above the diagonal and -s_ji
// below it.
at::Tensor SkewBackward(const at::Tensor& gradient_NBB) {
  const int64_t size = gradient_NBB.size(1);
  return (gradient_NBB - gradient_NBB.transpose(1, 2))
      .reshape({gradient_NBB.size(0), size * size})
      .index_select(1, AboveDiagonal(size, gradient_NBB));
}

at::Tensor Identity(const at::Tensor& like_NBB) {
  return at::eye(like_NBB.size(1), like_NBB.options());
}

// The highest power of Q in a series with this many terms.
int64_t Power(int64_t terms) { return terms <= 2 ? terms - 1 : std::max<int64_t>(3, terms - 1); }

// The coefficient c_k of Q^k in the series up to the power p.
double Coefficient(int64_t k, int64_t p) { return k == p && p > 1 ? 1.0 : 2.0; }

// The terms H_1 .. H_p of Horner's rule, with p = `power`: H_p = c_p I and H_k = c_k I + Q H_(k+1).
// The series is Q H_1.
std::vector<at::Tensor> Horner(const at::Tensor& q_NBB, int64_t power) {
  const at::Tensor identity = Identity(q_NBB);
  std::vector<at::Tensor> steps(power);
  steps[power - 1] = (identity * Coefficient(power, power)).expand_as(q_NBB);
  for (int64_t k = power - 1; k >= 1; --k)
    steps[k - 1] = at::bmm(q_NBB, steps[k]).add_(identity, Coefficient(k, power));
  return steps;
}

// The matrix (I + Q)^-1.
at::Tensor Inverse(const at::Tensor& q_NBB) {
  const at::Tensor identity = Identity(q_NBB);
  return at::linalg_solve(q_NBB + identity, identity.expand_as(q_NBB));
}

// A view of the rows split by block, [N, T, B].
at::Tensor ByBlock(const at::Tensor& x_TI, int64_t blocks) {
  return x_TI.view({x_TI.size(0), blocks, x_TI.size(1) / blocks}).transpose(0, 1);
}

at::Tensor PlusTurned(const at::Tensor& x_TI, const at::Tensor& change_NBB) {
  at::NoGradGuard no_grad;
  const at::Tensor x = x_TI.contiguous(), change = change_NBB.to(x.scalar_type());
  const at::Tensor turned = at::bmm(ByBlock(x, change.size(0)), change).transpose(0, 1);
  return at::add(x.view(turned.sizes()), turned).reshape(x.sizes());
}

}  // namespace

int64_t RotatedBlockSize(int64_t numbers) {
  const auto size =
      static_cast<int64_t>(std::llround((1.0 + std::sqrt(1.0 + 8.0 * numbers)) / 2.0));
  TORCH_CHECK(size > 1 && size * (size - 1) / 2 == numbers, "rotation: blocks of ", numbers,
              " numbers, expected B (B - 1) / 2");
  return size;
}

at::Tensor RotationOf(const BlockRotation& rotation) {
  at::NoGradGuard no_grad;
  const at::Tensor q = SkewOf(rotation.skew_NE);
  if (rotation.terms == 0) return at::bmm(q, Inverse(q)).mul_(-2.0);
  const int64_t power = Power(rotation.terms);
  return power == 0 ? at::zeros(q.sizes(), q.options()) : at::bmm(q, Horner(q, power)[0]);
}

// For the exact form, with M = (I + Q)^-1, the differential of R is dR = -2 M dQ M. For the series,
// with gradients written gD, gQ, gH: gQ += gD H_1^T and gH_1 = Q^T gD, then the same for H_2 with
// gH_1 in place of gD, and so on.
at::Tensor RotationBackward(const BlockRotation& rotation, const at::Tensor& gradient_NBB) {
  at::NoGradGuard no_grad;
  const at::Tensor q = SkewOf(rotation.skew_NE);
  if (rotation.terms == 0) {
    const at::Tensor inverse = Inverse(q).transpose(1, 2);
    return SkewBackward(at::bmm(inverse, at::bmm(gradient_NBB, inverse)).mul_(-2.0));
  }
  const int64_t power = Power(rotation.terms);
  at::Tensor dq = at::zeros(q.sizes(), q.options());
  if (power == 0) return SkewBackward(dq);
  const std::vector<at::Tensor> steps = Horner(q, power);
  const at::Tensor transposed = q.transpose(1, 2);
  at::Tensor gradient = gradient_NBB;
  for (int64_t k = 0; k < power; ++k) {
    if (k > 0) gradient = at::bmm(transposed, gradient);
    dq.add_(at::bmm(gradient, steps[k].transpose(1, 2)));
  }
  return SkewBackward(dq);
}

at::Tensor Rotate(const at::Tensor& x_TI, const at::Tensor& rotation_NBB) {
  return PlusTurned(x_TI, rotation_NBB);
}

at::Tensor RotateBackward(const at::Tensor& dy_TI, const at::Tensor& rotation_NBB) {
  return PlusTurned(dy_TI, rotation_NBB.transpose(1, 2));
}

at::Tensor RotateBackwardOfRotation(const at::Tensor& x_TI, const at::Tensor& dy_TI,
                                    const at::Tensor& rotation_NBB) {
  at::NoGradGuard no_grad;
  const int64_t blocks = rotation_NBB.size(0);
  const at::Tensor x = ByBlock(x_TI.contiguous(), blocks), dy = ByBlock(dy_TI.contiguous(), blocks);
  return at::bmm(x.transpose(1, 2), dy).to(rotation_NBB.scalar_type());
}

}  // namespace moonring::model
