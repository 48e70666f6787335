#include "kernels/score_rows.h"

#include <cstdint>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace moonring::kernels {

TORCH_LIBRARY_FRAGMENT(moonring, library) {
  library.def(
      "score_rows(Tensor x, Tensor seen, float scale, float softcap, *, Tensor(a!) p, "
      "Tensor(b!) sum, Tensor(c!) lse) -> ()");
  library.def(
      "score_rows_backward(Tensor x, Tensor y, Tensor lse, Tensor delta, Tensor seen, float scale, "
      "float softcap, *, Tensor(a!) p, Tensor(b!) ds) -> ()");
}

at::Tensor ScoreMemory(at::IntArrayRef sizes, const at::TensorOptions& options) {
  constexpr int64_t kTogether = 8;
  std::vector<int64_t> padded = sizes.vec();
  padded.back() = (padded.back() + kTogether - 1) / kTogether * kTogether;
  return at::empty(padded, options.dtype(at::kFloat)).narrow(-1, 0, sizes.back());
}

at::Tensor NarrowOver(const at::Tensor& wide_BHMN, at::ScalarType dtype) {
  // view(dtype) needs whole rows, including the padding. In the narrower dtype a row has twice as
  // many numbers, so the row stride doubles.
  std::vector<int64_t> sizes = wide_BHMN.sizes().vec(), strides = wide_BHMN.strides().vec();
  const int64_t keys = sizes.back();
  sizes.back() = strides[strides.size() - 2];
  return wide_BHMN.as_strided(sizes, strides).view(dtype).narrow(-1, 0, keys);
}

void ScoreRows(const at::Tensor& x_BHMN, const at::Tensor& seen_B4, const ScoreCurve& curve,
               const at::Tensor& p_BHMN, const ScoreRowSums& sums) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow(kScoreRows, "")
                             .typed<void(const at::Tensor&, const at::Tensor&, double, double,
                                         at::Tensor, at::Tensor, at::Tensor)>();
  op.call(x_BHMN, seen_B4, curve.scale, curve.softcap, p_BHMN, sums.sum_BHM, sums.lse_BHM);
}

void ScoreRowsBackward(const at::Tensor& x_BHMN, const at::Tensor& y_BHMN,
                       const at::Tensor& lse_BHM, const at::Tensor& delta_BHM,
                       const at::Tensor& seen_B4, const ScoreCurve& curve,
                       const ScoreRowGradients& into) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("moonring::score_rows_backward", "")
          .typed<void(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                      const at::Tensor&, double, double, at::Tensor, at::Tensor)>();
  op.call(x_BHMN, y_BHMN, lse_BHM, delta_BHM, seen_B4, curve.scale, curve.softcap, into.p_BHMN,
          into.ds_BHMN);
}

}  // namespace moonring::kernels
