#include "mixers/over_ranks/local_mixing.h"

#include <utility>

#include "base/autograd/custom_function.h"
#include "base/memory/to_device.h"
#include "mixers/rule/delta_rule.h"
#include "mixers/rule/short_convolution.h"

namespace moonring::mixers {

DeltaInputs InputsOf(const DeltaCall& call, const at::Tensor& qkv_TC) {
  const int64_t rows = qkv_TC.size(0), keys = call.key_heads * call.key_dim,
                values = call.value_heads * call.value_dim;
  TORCH_CHECK(qkv_TC.size(1) == 2 * keys + values, "delta rule: ", qkv_TC.size(1),
              " channels of q, k and v, expected ", 2 * keys + values);
  // One split operator for q, k and v, so that its backward concatenates their gradients in one
  // pass.
  const std::vector<at::Tensor> qkv = qkv_TC.split_with_sizes({keys, keys, values}, 1);
  return {.q_THK = qkv[0].view({rows, call.key_heads, call.key_dim}),
          .k_THK = qkv[1].view({rows, call.key_heads, call.key_dim}),
          .v_THV = qkv[2].view({rows, call.value_heads, call.value_dim}),
          .g = call.g,
          .beta_TH = call.beta_TH,
          .initial_DHVK = {}};
}

ConvolutionCall ConvolutionOf(const DeltaCall& call) {
  return {.x_TC = call.x_TC,
          .taps_CW = call.taps_CW,
          .bias_C = call.bias_C,
          .silu = true,
          .layer = call.layer};
}

at::Tensor WithSkip(const at::Tensor& out_THV, const at::Tensor& v_THV, const at::Tensor& skip_H) {
  if (!skip_H.defined()) return out_THV;
  TORCH_CHECK(skip_H.sizes() == at::IntArrayRef({v_THV.size(1)}), "delta rule: a skip of ",
              skip_H.sizes(), " for v ", v_THV.sizes());
  return base::ApplyToOne(
      {.name = "skip",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         *saved = {v_THV, skip_H};
         return {(v_THV * skip_H.unsqueeze(1)).add_(out_THV).to(out_THV.scalar_type())};
       },
       .backward = [](base::BackwardCall& call) -> base::Tensors {
         const at::Tensor &v = call.saved[0], &skip = call.saved[1], &d_out = call.gradients[0];
         base::Tensors gradients(3);
         gradients[0] = d_out;
         if (call.wanted[1]) gradients[1] = (d_out * skip.unsqueeze(1)).to(v.scalar_type());
         if (call.wanted[2])
           gradients[2] = (d_out.to(skip.scalar_type()) * v).sum(at::IntArrayRef({0, 2}));
         return gradients;
       }},
      {out_THV, v_THV, skip_H});
}

LocalMixing::LocalMixing(std::vector<int64_t> lengths, std::vector<comm::Parent> parents)
    : lengths_(std::move(lengths)), parents_(std::move(parents)) {
  if (!parents_.empty()) generations_.emplace(lengths_, parents_);
}

at::Tensor LocalMixing::Delta(const DeltaCall& call) {
  const at::Tensor qkv_TC = call.taps_CW.defined() ? Convolve(ConvolutionOf(call)) : call.x_TC;
  const DeltaInputs inputs = InputsOf(call, qkv_TC);
  return WithSkip(Rule(inputs, call.options), inputs.v_THV, call.skip_H);
}

at::Tensor LocalMixing::Rule(const DeltaInputs& inputs, const DeltaOptions& options) const {
  if (!generations_.has_value()) return GatedDeltaRule(inputs, lengths_, options).out_THV;
  return generations_->Run(inputs, nullptr, [&](size_t generation, const DeltaInputs& own) {
    return GatedDeltaRule(own, generations_->rows(generation).lengths(), options);
  });
}

at::Tensor LocalMixing::Convolve(const ConvolutionCall& call) {
  ShortConvolutionInputs inputs{
      .x_TC = call.x_TC, .weight_CW = call.taps_CW, .bias_C = call.bias_C, .halo_RC = {}};
  ShortConvolutionOptions options{.silu = call.silu, .halo_lengths = {}};
  if (parents_.empty()) return ShortConvolution(inputs, lengths_, options);
  std::vector<int64_t> offsets = {0}, rows;
  for (const int64_t length : lengths_) offsets.push_back(offsets.back() + length);
  for (size_t d = 0; d < lengths_.size(); ++d) {
    const size_t before = rows.size();
    const comm::Span whole{static_cast<int64_t>(d), 0, lengths_[d]};
    for (const comm::Span& span : RowsBefore(whole, call.taps_CW.size(1), parents_))
      for (int64_t t = span.begin; t < span.end; ++t) rows.push_back(offsets[span.document] + t);
    options.halo_lengths.push_back(static_cast<int64_t>(rows.size() - before));
  }
  if (!rows.empty())
    inputs.halo_RC = call.x_TC.index_select(0, base::ToDevice(rows, call.x_TC.device()));
  return ShortConvolution(inputs, lengths_, options);
}

}  // namespace moonring::mixers
