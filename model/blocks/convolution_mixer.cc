#include "model/blocks/convolution_mixer.h"

#include <vector>

#include <ATen/TensorOperators.h>

#include "model/blocks/input_maps.h"

namespace moonring::model {

at::Tensor MixByConvolution(const BlockRule& rule, const BlockMaps& maps,
                            const at::Tensor& hidden_TD, mixers::PlannedMixing& mixing) {
  const at::Tensor made = ProjectInput(rule, maps, hidden_TD, {kConvolutionInput})[0];
  const std::vector<at::Tensor> parts = made.split(hidden_TD.size(1), 1);
  const Projection& filter = maps.Map(kConvolutionFilter);
  return parts[1] * mixing.Convolve({.x_TC = parts[0] * parts[2],
                                     .taps_CW = filter.weight_OI.select(1, 0),
                                     .bias_C = filter.bias_O,
                                     .silu = false,
                                     .layer = rule.scores.layer});
}

}  // namespace moonring::model
