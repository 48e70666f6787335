#include <ATen/ops/empty.h>

#include "kernels/gated_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

GatedCall GatedCallOf(const at::Tensor& gate, const at::Tensor& up, int64_t activation) {
  TORCH_CHECK(gate.dim() == 2 && gate.sizes() == up.sizes(), "gated: gate of shape ", gate.sizes(),
              ", up of shape ", up.sizes());
  TORCH_CHECK(gate.scalar_type() == up.scalar_type(), "gated: gate in ", gate.scalar_type(),
              ", up in ", up.scalar_type());
  TORCH_CHECK(activation >= 0 && activation <= 2, "gated: activation ", activation);
  GatedCall call{};
  call.type = TypeOf(gate);
  call.activation = static_cast<int>(activation);
  call.rows = gate.size(0);
  call.width = gate.size(1);
  return call;
}

at::Tensor Gated(const at::Tensor& given_gate, const at::Tensor& given_up, int64_t activation) {
  GatedCall call = GatedCallOf(given_gate, given_up, activation);
  const at::Tensor gate = WithWholeRows(given_gate), up = WithWholeRows(given_up);
  at::Tensor product = at::empty(gate.sizes(), gate.options());
  call.gate = RowsOf(gate);
  call.up = RowsOf(up);
  call.product = DataOf(product);
  if (gate.numel() > 0) LaunchGated(call, StreamOf(gate));
  return product;
}

at::Tensor GatedBackward(at::Tensor& dp, const at::Tensor& given_gate, const at::Tensor& given_up,
                         int64_t activation) {
  GatedCall call = GatedCallOf(given_gate, given_up, activation);
  TORCH_CHECK(dp.sizes() == given_gate.sizes() && dp.is_contiguous() &&
                  dp.scalar_type() == given_gate.scalar_type(),
              "gated: a gradient of shape ", dp.sizes(), " and strides ", dp.strides(), " in ",
              dp.scalar_type(), ", expected without gaps, as the gate: ", given_gate.sizes(),
              " in ", given_gate.scalar_type());
  const at::Tensor gate = WithWholeRows(given_gate), up = WithWholeRows(given_up);
  at::Tensor dup = at::empty(gate.sizes(), gate.options());
  call.gate = RowsOf(gate);
  call.up = RowsOf(up);
  call.product = DataOf(dp);
  call.dup = DataOf(dup);
  if (gate.numel() > 0) LaunchGatedBackward(call, StreamOf(gate));
  return dup;
}

KERNEL_OPERATORS(library) {
  library.impl("gated", TORCH_FN(Gated));
  library.impl("gated_backward_", TORCH_FN(GatedBackward));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
