#include "attention/kernels/sink.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logaddexp.h>

namespace moonring::attention {

void AddSink(const at::Tensor& sink_H, const PartialAttention& whole) {
  const at::Tensor &out_MHD = whole.out_MHD, &lse_MH = whole.lse_MH;
  const at::Tensor with_MH = at::logaddexp(lse_MH, sink_H.to(lse_MH.scalar_type()));
  out_MHD.mul_((lse_MH - with_MH).exp_().unsqueeze(2));
  lse_MH.copy_(with_MH);
}

at::Tensor SinkGradient(const at::Tensor& sink_H, const QueryResults& results) {
  const at::ScalarType type = results.lse_TH.scalar_type();
  const at::Tensor delta_TH = (results.dout_THD.to(type) * results.out_THD.to(type)).sum({2});
  return (sink_H.to(type) - results.lse_TH).exp_().mul_(delta_TH).sum({0}).neg_();
}

}  // namespace moonring::attention
