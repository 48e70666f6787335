// A gated short convolution as a block's mixer, as in LFM2. With n = norm_a(x):
//
//   [b | c | u] = Wi n;   y = c convolution(b u)      causal, depthwise, without an activation
//
// b, c, u and y have D features each. A token depends only on the few tokens before it that the
// convolution's taps reach, so ranks exchange only these rows (mixers/rule/short_convolution.h).

#include <string>
#include <vector>

#include <ATen/TensorOperators.h>

#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rows.h"
#include "model/blocks/block_rule.h"
#include "model/blocks/input_maps.h"
#include "model/config/config.h"
#include "model/mixers/mixers.h"

namespace moonring::model {
namespace {

MixerOutput RunConvolution(const BlockRule& rule, const BlockMaps& maps,
                           const at::Tensor& hidden_TD, const BlockRows& rows,
                           attention::PlannedAttention&, attention::KeptAttention*) {
  const at::Tensor made = ProjectInput(rule, maps, hidden_TD, {kConvolutionInput})[0];
  const std::vector<at::Tensor> parts = made.split(hidden_TD.size(1), 1);
  const Projection& filter = maps.Map(kConvolutionFilter);
  return {parts[1] * rows.mixing->Convolve({.x_TC = parts[0] * parts[2],
                                            .taps_CW = filter.weight_OI.select(1, 0),
                                            .bias_C = filter.bias_O,
                                            .silu = false,
                                            .layer = rule.scores.layer}),
          {}};
}

std::vector<int64_t> ShapeOfConvolution(const ModelConfig& config, const LayerRule&, int place) {
  const int64_t d = config.hidden_size;
  switch (place) {
    case kConvolutionInput:
      return {3 * d, d};
    case kConvolutionFilter:
      return {d, 1, config.convolution.taps};
    case kConvolutionOutput:
      return {d, d};
    default:
      return {};
  }
}

bool ConvolutionIsBiased(const ModelConfig& config, int) { return config.convolution.bias; }

std::vector<MixerSize> SizesOfConvolution(const ModelConfig& config) {
  return {{"convolution_taps", "conv_L_cache", config.convolution.taps},
          {"", "conv_bias", config.convolution.bias}};
}

MixerWork WorkOfConvolution(const ModelConfig& config) {
  return {.channels = config.hidden_size, .taps = config.convolution.taps};
}

constexpr MixerGgufName kGgufOfConvolution[] = {
    {kConvolutionInput, "shortconv.in_proj"},
    {kConvolutionFilter, "shortconv.conv"},
    {kConvolutionOutput, "shortconv.out_proj"},
};

}  // namespace

constinit const Mixer kGatedConvolution = {
    .name = "convolution",
    .layers_fact = "convolution_layers",
    .layer_type = "conv",
    .cache = MixerCache::kState,
    .output = kConvolutionOutput,
    .shape = ShapeOfConvolution,
    .biased = ConvolutionIsBiased,
    .run = RunConvolution,
    .sizes = SizesOfConvolution,
    .work = WorkOfConvolution,
    .describe = [](const ModelConfig&) -> std::string { return "a short convolution"; },
    .gguf = kGgufOfConvolution,
};

}  // namespace moonring::model
