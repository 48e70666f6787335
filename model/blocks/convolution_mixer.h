#ifndef MOONRING_MODEL_BLOCKS_CONVOLUTION_MIXER_H_
#define MOONRING_MODEL_BLOCKS_CONVOLUTION_MIXER_H_

// A gated short convolution as a block's mixer, as in LFM2. With n = norm_a(x):
//
//   [b | c | u] = Wi n;   y = c convolution(b u)      causal, depthwise, without an activation
//
// b, c, u and y have D features each. A token depends only on the few tokens before it that the
// convolution's taps reach, so ranks exchange only these rows (mixers/rule/short_convolution.h).

#include <ATen/core/Tensor.h>

#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// Returns y_TD in the matmul dtype, computed from hidden_TD, rows of the residual stream.
// Collective; exceptions of `mixing` propagate.
at::Tensor MixByConvolution(const BlockRule& rule, const BlockMaps& maps,
                            const at::Tensor& hidden_TD, mixers::PlannedMixing& mixing);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_CONVOLUTION_MIXER_H_
