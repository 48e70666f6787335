#ifndef MOONRING_TRAINER_RULES_PROJECTION_H_
#define MOONRING_TRAINER_RULES_PROJECTION_H_

// Projects a matrix G [m, n] to a low-rank space of rank r (low) and back. Low-rank optimizers keep
// their state in this space.
//
//   left     L [m, r]:  low = L^T G  [r, n],      back L low
//   right    R [r, n]:  low = G R^T  [m, r],      back low R
//   full     both:      low = L^T G R^T  [r, r],  back L low R
//   std           right if m >= n, else left: the smaller side is reduced to r
//   reverse_std   right if m < n, else left: the larger side is reduced to r
//
// L and R are the states "left" and "right" of the weight.

#include <array>
#include <cstdint>
#include <vector>

#include "base/text/fields.h"
#include "trainer/optimizer/rule_optimizer.h"

namespace moonring::trainer {

enum class ProjectionType { kStd, kReverseStd, kLeft, kRight, kFull };
constexpr auto WordsOf(ProjectionType) {
  return std::to_array<base::Word<ProjectionType>>({{"std", ProjectionType::kStd},
                                                    {"reverse_std", ProjectionType::kReverseStd},
                                                    {"left", ProjectionType::kLeft},
                                                    {"right", ProjectionType::kRight},
                                                    {"full", ProjectionType::kFull}});
}

struct Projection {
  // `rank` is r; for an SVD it is limited to the smaller side (`clamped`).
  Projection(ProjectionType type, int64_t rank, at::IntArrayRef shape, bool clamped = true);

  std::vector<int64_t> low_shape() const;
  // The dim of `low` that has size r; not for full.
  int64_t low_dim() const { return left ? 0 : 1; }

  // Adds L and R to the state, as zeros.
  void AddTo(UpdateRule::State& state, const at::Tensor& weight) const;
  // Sets L and R to the first r singular vectors of `matrix`. Computed in fp32, even for fp64, as
  // in galore-torch; signs are those of LAPACK or of the GPU library.
  void FromSvd(const at::Tensor& matrix, UpdateRule::State& state) const;
  at::Tensor Down(const UpdateRule::State& state, const at::Tensor& matrix) const;
  at::Tensor Up(const UpdateRule::State& state, const at::Tensor& low) const;

  bool left, right;
  int64_t rows, columns, rank;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_PROJECTION_H_
