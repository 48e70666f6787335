#include <ATen/ops/empty.h>

#include "kernels/philox_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

PhiloxCall PhiloxCallOf(int64_t key, const at::Tensor& identity, int64_t width) {
  TORCH_CHECK(identity.dim() == 1 && identity.scalar_type() == at::kLong &&
                  (identity.size(0) <= 1 || identity.stride(0) == 1),
              "random numbers: identities of shape ", identity.sizes(), " in ",
              identity.scalar_type(), ", expected int64 [T]");
  TORCH_CHECK(width >= 0, "random numbers: ", width, " a token");
  return {static_cast<uint64_t>(key), identity.const_data_ptr<int64_t>(), identity.size(0), width};
}

at::Tensor CounterUniform(int64_t key, const at::Tensor& given, int64_t width) {
  const at::Tensor identity = given.contiguous();
  const PhiloxCall call = PhiloxCallOf(key, identity, width);
  at::Tensor out = at::empty({call.rows, width}, identity.options().dtype(at::kFloat));
  if (out.numel() > 0) LaunchUniform(call, out.mutable_data_ptr<float>(), StreamOf(out));
  return out;
}

void Dropout(const at::Tensor& given, int64_t key, const at::Tensor& given_identity, double rate,
             at::Tensor& out) {
  TORCH_CHECK(given.dim() == 2 && given.size(0) == given_identity.size(0),
              "dropout: ", given_identity.size(0), " identities for rows of shape ", given.sizes());
  TORCH_CHECK(out.sizes() == given.sizes() && out.scalar_type() == given.scalar_type() &&
                  (out.size(1) <= 1 || out.stride(1) == 1),
              "dropout: a result of shape ", out.sizes(), " and strides ", out.strides(), " in ",
              out.scalar_type(), " for rows of shape ", given.sizes(), " in ", given.scalar_type());
  TORCH_CHECK(rate >= 0.0 && rate < 1.0, "dropout: ", rate, ", expected 0 <= rate < 1");
  const at::Tensor x = WithWholeRows(given), identity = given_identity.contiguous();
  DropoutCall call{};
  call.numbers = PhiloxCallOf(key, identity, x.size(1));
  call.type = TypeOf(x);
  call.rate = static_cast<float>(rate);
  call.scale = 1.0 / (1.0 - rate);
  call.x = RowsOf(x);
  call.out = {DataOf(out), out.stride(0)};
  if (x.numel() > 0) LaunchDropout(call, StreamOf(x));
}

KERNEL_OPERATORS(library) {
  library.impl("counter_uniform", TORCH_FN(CounterUniform));
  library.impl("dropout_", TORCH_FN(Dropout));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
