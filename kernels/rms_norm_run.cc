#include <optional>
#include <tuple>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "kernels/rms_norm_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void CheckRmsNorm(const at::Tensor& x, const at::Tensor& weight) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 1 && x.size(1) == weight.size(0),
              "rms_norm: rows of shape ", x.sizes(), ", weight of shape ", weight.sizes());
}

void CheckSame(const char* what, const at::Tensor& rows, const at::Tensor& x) {
  TORCH_CHECK(rows.sizes() == x.sizes(), "rms_norm: ", what, " of shape ", rows.sizes(),
              " for rows of shape ", x.sizes());
}

// Returns whether the added tensor has y's dtype; otherwise it has x's. Throws if it has neither
// dtype.
bool AddedIsY(at::ScalarType added, at::ScalarType x, at::ScalarType y) {
  TORCH_CHECK(added == x || added == y, "rms_norm: ", added, " is added to rows in ", x,
              " for a result in ", y);
  return added == y;
}

Results RmsNorm(const at::Tensor& given, const std::optional<at::Tensor>& given_added, double scale,
                const at::Tensor& given_weight, double eps, at::ScalarType dtype) {
  CheckRmsNorm(given, given_weight);
  const at::Tensor x = WithWholeRows(given);
  const at::ScalarType wide = at::toOpMathType(x.scalar_type());
  const at::Tensor weight = given_weight.to(wide).contiguous();
  RmsNormForwardCall call{};
  at::Tensor added, sum;
  if (given_added.has_value()) {
    CheckSame("a residual", *given_added, x);
    added = WithWholeRows(*given_added);
    sum = at::empty(x.sizes(), x.options());
    call.added_is_y = AddedIsY(added.scalar_type(), x.scalar_type(), dtype);
  }
  at::Tensor y = at::empty(x.sizes(), x.options().dtype(dtype)),
             rstd = at::empty({x.size(0), 1}, x.options().dtype(wide));
  call.x_type = TypeOf(x);
  call.y_type = TypeOf(dtype);
  call.rows = x.size(0);
  call.width = x.size(1);
  call.x = RowsOf(x);
  call.added = RowsOf(added);
  call.added_scale = scale;
  call.eps = eps;
  call.weight = DataOf(weight);
  call.sum = DataOf(sum);
  call.y = DataOf(y);
  call.rstd = DataOf(rstd);
  if (x.numel() > 0) LaunchRmsNorm(call, StreamOf(x));
  return {y, rstd, sum};
}

Results RmsNormBackward(const at::Tensor& given_dy, const at::Tensor& given,
                        const at::Tensor& given_weight, const at::Tensor& given_rstd,
                        const std::optional<at::Tensor>& given_dsum, double scale, bool wants_x,
                        bool wants_weight, std::optional<at::ScalarType> added_dtype) {
  CheckRmsNorm(given, given_weight);
  CheckSame("a gradient", given_dy, given);
  const at::Tensor dy = WithWholeRows(given_dy), x = WithWholeRows(given);
  const at::ScalarType wide = at::toOpMathType(x.scalar_type());
  const at::Tensor weight = given_weight.to(wide).contiguous(),
                   rstd = given_rstd.to(wide).contiguous();
  TORCH_CHECK(rstd.numel() == x.size(0), "rms_norm: ", rstd.numel(), " scales of ", x.size(0),
              " rows");
  at::Tensor dsum, dx, dadded, dweight, partial;
  if (given_dsum.has_value()) {
    CheckSame("a gradient of the sum", *given_dsum, x);
    dsum = WithWholeRows(given_dsum->to(x.scalar_type()));
  }
  RmsNormBackwardCall call{};
  if (wants_x) dx = at::empty(x.sizes(), x.options());
  if (added_dtype.has_value()) {
    call.added_is_y = AddedIsY(*added_dtype, x.scalar_type(), dy.scalar_type());
    dadded = at::empty(x.sizes(), x.options().dtype(*added_dtype));
  }
  const auto sums = x.options().dtype(wide);
  if (wants_weight) {
    dweight = x.numel() > 0 ? at::empty({x.size(1)}, sums) : at::zeros({x.size(1)}, sums);
    const auto bytes = static_cast<int64_t>(at::elementSize(wide));
    partial = at::empty({RmsNormPartials(x.size(0), x.size(1), bytes), x.size(1)}, sums);
  }
  call.x_type = TypeOf(x);
  call.y_type = TypeOf(dy);
  call.rows = x.size(0);
  call.width = x.size(1);
  call.dy = RowsOf(dy);
  call.x = RowsOf(x);
  call.dsum = RowsOf(dsum);
  call.weight = DataOf(weight);
  call.rstd = DataOf(rstd);
  call.added_scale = scale;
  call.dx = DataOf(dx);
  call.dadded = DataOf(dadded);
  call.dweight = DataOf(dweight);
  call.partial = DataOf(partial);
  if (x.numel() > 0) LaunchRmsNormBackward(call, StreamOf(x));
  return {dx, dadded, dweight.defined() ? dweight.to(given_weight.scalar_type()) : dweight};
}

KERNEL_OPERATORS(library) {
  library.impl("rms_norm", TORCH_FN(RmsNorm));
  library.impl("rms_norm_backward", TORCH_FN(RmsNormBackward));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
