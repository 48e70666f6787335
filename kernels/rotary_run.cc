#include <tuple>

#include <ATen/ops/empty.h>

#include "kernels/rotary_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

void CheckRotary(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                 const at::Tensor& sin) {
  TORCH_CHECK(q.dim() == 3 && k.dim() == 3 && q.size(0) == k.size(0) && q.size(2) == k.size(2) &&
                  q.scalar_type() == k.scalar_type(),
              "rotary: queries of shape ", q.sizes(), " in ", q.scalar_type(), ", keys of shape ",
              k.sizes(), " in ", k.scalar_type());
  TORCH_CHECK(cos.dim() == 3 && cos.size(0) == q.size(0) && cos.size(1) == 1 &&
                  2 * cos.size(2) <= q.size(2) && sin.sizes() == cos.sizes(),
              "rotary: cosines of shape ", cos.sizes(), " and sines of shape ", sin.sizes(),
              " for rows of shape ", q.sizes());
  const at::ScalarType wide = at::toOpMathType(q.scalar_type());
  TORCH_CHECK(cos.scalar_type() == wide && sin.scalar_type() == wide, "rotary: cosines in ",
              cos.scalar_type(), " for rows in ", q.scalar_type());
}

Heads HeadsOf(const at::Tensor& from, const at::Tensor& to) {
  return {RowsOf(from), from.stride(1), from.size(1), DataOf(to)};
}

std::tuple<at::Tensor, at::Tensor> Rotate(const at::Tensor& given_q, const at::Tensor& given_k,
                                          const at::Tensor& given_cos, const at::Tensor& given_sin,
                                          bool interleaved, bool back) {
  CheckRotary(given_q, given_k, given_cos, given_sin);
  const at::Tensor q = WithWholeRows(given_q), k = WithWholeRows(given_k),
                   cos = given_cos.contiguous(), sin = given_sin.contiguous();
  at::Tensor q_turned = at::empty(q.sizes(), q.options()),
             k_turned = at::empty(k.sizes(), k.options());
  RotaryCall call{};
  call.type = TypeOf(q);
  call.rows = q.size(0);
  call.width = q.size(2);
  call.pairs = cos.size(2);
  call.q = HeadsOf(q, q_turned);
  call.k = HeadsOf(k, k_turned);
  call.cos = DataOf(cos);
  call.sin = DataOf(sin);
  call.interleaved = interleaved;
  call.back = back;
  if (q.numel() + k.numel() > 0) LaunchRotary(call, StreamOf(q));
  return {q_turned, k_turned};
}

KERNEL_OPERATORS(library) { library.impl("rotary", TORCH_FN(Rotate)); }

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
