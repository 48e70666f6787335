#ifndef MOONRING_MODEL_BLOCKS_CONVOLUTION_MIXER_H_
#define MOONRING_MODEL_BLOCKS_CONVOLUTION_MIXER_H_

// A gated short convolution as a block's mixer, as in LFM2. With n = norm_a(x):
//
//   [b | c | u] = Wi n;   y = c convolution(b u)      causal, depthwise, without an activation
//
// All have D features. A token depends only on the few tokens before it that the taps reach, so
// ranks exchange only these rows (mixers/rule/short_convolution.h).

#include <ATen/core/Tensor.h>

#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// Computes y_TD in the matmul dtype from the stream's rows hidden_TD. Collective; throws what
// mixing throws.
at::Tensor MixByConvolution(const BlockRule& rule, const BlockMaps& maps,
                            const at::Tensor& hidden_TD, mixers::PlannedMixing& mixing);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_CONVOLUTION_MIXER_H_
