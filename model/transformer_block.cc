#include "model/transformer_block.h"

#include <cmath>

#include <ATen/ops/add.h>

namespace moonring::model {
namespace {

// x + y in x's dtype. Where y is a fresh tensor of that dtype the sum is made in it: no backward needs y.
at::Tensor AddToStream(const at::Tensor& x_TD, at::Tensor y_TD) { return y_TD.scalar_type() == x_TD.scalar_type() ? y_TD.add_(x_TD) : at::add(x_TD, y_TD); }

at::Tensor SelfAttention(const BlockShape& shape, absl::Span<const at::Tensor> weights, const at::Tensor& normed_TD, const Rotary& rotary,
                         attention::PlannedAttention& attention, attention::KeptAttention* kept) {
  const int64_t rows = normed_TD.size(0), width = shape.head_dim;
  const at::Tensor q_THD = ApplyRotary(Linear(normed_TD, weights[kQuery], weights[kQueryBias]).view({rows, shape.heads, width}), rotary);
  const at::Tensor k_TKD = ApplyRotary(Linear(normed_TD, weights[kKey], weights[kKeyBias]).view({rows, shape.kv_heads, width}), rotary);
  const at::Tensor v_TKD = Linear(normed_TD, weights[kValue], weights[kValueBias]).view({rows, shape.kv_heads, width});
  const at::Tensor out_THD = attention.Forward(q_THD, k_TKD, v_TKD, {1.0 / std::sqrt(static_cast<double>(width)), shape.window}, kept);
  return Linear(out_THD.reshape({rows, shape.heads * width}), weights[kOutput], weights[kOutputBias]);
}

at::Tensor GatedMlp(absl::Span<const at::Tensor> weights, const at::Tensor& normed_TD) {
  const at::Tensor gate_TI = Linear(normed_TD, weights[kGate], weights[kGateBias]);
  const at::Tensor up_TI = Linear(normed_TD, weights[kUp], weights[kUpBias]);
  return GatedDown(gate_TI, up_TI, weights[kDown], weights[kDownBias]);
}

}  // namespace

at::ScalarType WeightDtype(BlockWeight weight, at::ScalarType matmul_dtype) {
  return weight == kInputNorm || weight == kPostNorm ? StreamDtype(matmul_dtype) : matmul_dtype;
}

at::Tensor TransformerBlock(const BlockShape& shape, absl::Span<const at::Tensor> weights, const at::Tensor& hidden_TD, const Rotary& rotary,
                            attention::PlannedAttention& attention, attention::KeptAttention* kept) {
  TORCH_CHECK(weights.size() == kBlockWeights, "transformer block: ", weights.size(), " weights, wanted ", static_cast<int>(kBlockWeights));
  at::Tensor stream_TD;
  {
    const at::Tensor normed_TD = RmsNorm(hidden_TD, weights[kInputNorm], shape.rms_norm_eps, shape.matmul_dtype);
    stream_TD = AddToStream(hidden_TD, SelfAttention(shape, weights, normed_TD, rotary, attention, kept));
  }
  const at::Tensor normed_TD = RmsNorm(stream_TD, weights[kPostNorm], shape.rms_norm_eps, shape.matmul_dtype);
  return AddToStream(stream_TD, GatedMlp(weights, normed_TD));
}

}  // namespace moonring::model
