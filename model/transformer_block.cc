#include "model/transformer_block.h"

#include <cmath>

#include <ATen/ops/add.h>

namespace moonring::model {
namespace {

// x + y in x's dtype. Where y is a fresh tensor of that dtype the sum is made in it: no backward needs y.
at::Tensor AddToStream(const at::Tensor& x_TD, at::Tensor y_TD) { return y_TD.scalar_type() == x_TD.scalar_type() ? y_TD.add_(x_TD) : at::add(x_TD, y_TD); }

at::Tensor SelfAttention(const BlockShape& shape, const BlockMaps& maps, const at::Tensor& normed_TD, const Rotary& rotary,
                         attention::PlannedAttention& attention, attention::KeptAttention* kept) {
  const int64_t rows = normed_TD.size(0), width = shape.head_dim;
  const at::Tensor q_THD = ApplyRotary(Project(maps.query, normed_TD).view({rows, shape.heads, width}), rotary);
  const at::Tensor k_TKD = ApplyRotary(Project(maps.key, normed_TD).view({rows, shape.kv_heads, width}), rotary);
  const at::Tensor v_TKD = Project(maps.value, normed_TD).view({rows, shape.kv_heads, width});
  const at::Tensor out_THD = attention.Forward(q_THD, k_TKD, v_TKD, {1.0 / std::sqrt(static_cast<double>(width)), shape.window}, kept);
  return Project(maps.output, out_THD.reshape({rows, shape.heads * width}));
}

at::Tensor GatedMlp(const BlockMaps& maps, const at::Tensor& normed_TD) {
  const at::Tensor gate_TI = Project(maps.gate, normed_TD);
  const at::Tensor up_TI = Project(maps.up, normed_TD);
  return ProjectGated(maps.down, gate_TI, up_TI);
}

}  // namespace

at::ScalarType WeightDtype(BlockWeight weight, at::ScalarType matmul_dtype) {
  return weight == kInputNorm || weight == kPostNorm ? StreamDtype(matmul_dtype) : matmul_dtype;
}

BlockMaps PlainMaps(absl::Span<const at::Tensor> weights) {
  TORCH_CHECK(weights.size() >= kBlockWeights, "transformer block: ", weights.size(), " weights, wanted ", static_cast<int>(kBlockWeights));
  const auto map = [&](BlockWeight weight, BlockWeight bias) { return Projection{weights[weight], weights[bias], std::nullopt}; };
  return {weights[kInputNorm],
          weights[kPostNorm],
          map(kQuery, kQueryBias),
          map(kKey, kKeyBias),
          map(kValue, kValueBias),
          map(kOutput, kOutputBias),
          map(kGate, kGateBias),
          map(kUp, kUpBias),
          map(kDown, kDownBias)};
}

Projection& MapAt(BlockMaps& maps, BlockWeight place) {
  switch (place) {
    case kQuery:
      return maps.query;
    case kKey:
      return maps.key;
    case kValue:
      return maps.value;
    case kOutput:
      return maps.output;
    case kGate:
      return maps.gate;
    case kUp:
      return maps.up;
    case kDown:
      return maps.down;
    default:
      TORCH_CHECK(false, "transformer block: place ", static_cast<int>(place), " is no linear map's");
  }
}

at::Tensor TransformerBlock(const BlockShape& shape, const BlockMaps& maps, const at::Tensor& hidden_TD, const Rotary& rotary,
                            attention::PlannedAttention& attention, attention::KeptAttention* kept) {
  at::Tensor stream_TD;
  {
    const at::Tensor normed_TD = RmsNorm(hidden_TD, maps.input_norm_D, shape.rms_norm_eps, shape.matmul_dtype);
    stream_TD = AddToStream(hidden_TD, SelfAttention(shape, maps, normed_TD, rotary, attention, kept));
  }
  const at::Tensor normed_TD = RmsNorm(stream_TD, maps.post_norm_D, shape.rms_norm_eps, shape.matmul_dtype);
  return AddToStream(stream_TD, GatedMlp(maps, normed_TD));
}

}  // namespace moonring::model
