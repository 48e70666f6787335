#ifndef MOONRING_TRAINER_RULES_PROJECTION_H_
#define MOONRING_TRAINER_RULES_PROJECTION_H_

// A matrix [m, n] in fewer numbers, and back: the spaces in which low-rank optimizers keep their
// state.
//
//   left     L [m, r]:  low = L^T G  [r, n],      back L low
//   right    R [r, n]:  low = G R^T  [m, r],      back low R
//   full     both:      low = L^T G R^T  [r, r],  back L low R
//   std      right where m >= n, else left: the smaller side;  reverse_std  the larger one
//
// L and R are states "left" and "right" of the weight.

#include <cstdint>
#include <vector>

#include "trainer/rule_optimizer.h"

namespace moonring::trainer {

enum class ProjectionType { kStd, kReverseStd, kLeft, kRight, kFull };

struct Projection {
  // `rank` is r, of an SVD the smaller side at most (`clamped`).
  Projection(ProjectionType type, int64_t rank, at::IntArrayRef shape, bool clamped = true);

  std::vector<int64_t> low_shape() const;
  // The dim of `low` that is r; not of full.
  int64_t low_dim() const { return left ? 0 : 1; }

  // Zeros.
  void AddTo(UpdateRule::State& state, const at::Tensor& weight) const;
  // The first r singular vectors. In fp32, of an fp64 matrix too, as galore-torch has it; their
  // signs are LAPACK's, or the GPU's.
  void FromSvd(const at::Tensor& matrix, UpdateRule::State& state) const;
  at::Tensor Down(const UpdateRule::State& state, const at::Tensor& matrix) const;
  at::Tensor Up(const UpdateRule::State& state, const at::Tensor& low) const;

  bool left, right;
  int64_t rows, columns, rank;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_PROJECTION_H_
