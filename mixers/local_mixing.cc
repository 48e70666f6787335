#include "mixers/local_mixing.h"

#include "mixers/delta_rule.h"
#include "mixers/short_convolution.h"

namespace moonring::mixers {

DeltaInputs InputsOf(const DeltaCall& call, const at::Tensor& qkv_TC) {
  const int64_t rows = qkv_TC.size(0), keys = call.key_heads * call.key_dim,
                values = call.value_heads * call.value_dim;
  TORCH_CHECK(qkv_TC.size(1) == 2 * keys + values, "delta rule: ", qkv_TC.size(1),
              " channels of q, k and v, wanted ", 2 * keys + values);
  // One operator, so that their gradients come together in one pass.
  const std::vector<at::Tensor> qkv = qkv_TC.split_with_sizes({keys, keys, values}, 1);
  return {.q_THK = qkv[0].view({rows, call.key_heads, call.key_dim}),
          .k_THK = qkv[1].view({rows, call.key_heads, call.key_dim}),
          .v_THV = qkv[2].view({rows, call.value_heads, call.value_dim}),
          .g = call.g,
          .beta_TH = call.beta_TH,
          .initial_DHVK = {}};
}

at::Tensor LocalMixing::Delta(const DeltaCall& call) {
  const at::Tensor qkv_TC =
      call.taps_CW.defined()
          ? Convolve({.x_TC = call.x_TC, .taps_CW = call.taps_CW, .bias_C = {}, .silu = true})
          : call.x_TC;
  return Rule(InputsOf(call, qkv_TC), call.options);
}

at::Tensor LocalMixing::Rule(const DeltaInputs& inputs, const DeltaOptions& options) const {
  return GatedDeltaRule(inputs, lengths_, options).out_THV;
}

at::Tensor LocalMixing::Convolve(const ConvolutionCall& call) {
  return ShortConvolution(
      {.x_TC = call.x_TC, .weight_CW = call.taps_CW, .bias_C = call.bias_C, .halo_RC = {}},
      lengths_, {.silu = call.silu, .halo_lengths = {}});
}

}  // namespace moonring::mixers
