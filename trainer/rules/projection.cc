#include "trainer/rules/projection.h"

#include <algorithm>
#include <tuple>

#include <ATen/ATen.h>

namespace moonring::trainer {

Projection::Projection(ProjectionType type, int64_t rank, at::IntArrayRef shape, bool clamped)
    : rows(shape[0]), columns(shape[1]) {
  const bool tall = rows >= columns;
  left = type == ProjectionType::kLeft || type == ProjectionType::kFull ||
         (type == ProjectionType::kStd && !tall) || (type == ProjectionType::kReverseStd && tall);
  right = type == ProjectionType::kFull || !left;
  this->rank = clamped ? std::min({rank, rows, columns}) : rank;
}

std::vector<int64_t> Projection::low_shape() const {
  return {left ? rank : rows, right ? rank : columns};
}

void Projection::AddTo(UpdateRule::State& state, const at::Tensor& weight) const {
  if (left) state["left"] = at::zeros({rows, rank}, weight.options());
  if (right) state["right"] = at::zeros({rank, columns}, weight.options());
}

void Projection::FromSvd(const at::Tensor& matrix, UpdateRule::State& state) const {
  const auto [u, s, vh] = at::linalg_svd(matrix.to(at::kFloat), /*full_matrices=*/false);
  if (left) state.at("left").copy_(u.narrow(1, 0, rank));
  if (right) state.at("right").copy_(vh.narrow(0, 0, rank));
}

at::Tensor Projection::Down(const UpdateRule::State& state, const at::Tensor& matrix) const {
  at::Tensor low = matrix;
  if (left) low = state.at("left").t().mm(low);
  if (right) low = low.mm(state.at("right").t());
  return low;
}

at::Tensor Projection::Up(const UpdateRule::State& state, const at::Tensor& low) const {
  at::Tensor back = low;
  if (left) back = state.at("left").mm(back);
  if (right) back = back.mm(state.at("right"));
  return back;
}

}  // namespace moonring::trainer
