#ifndef MOONRING_MODEL_BLOCKS_STATE_SPACE_MIXER_H_
#define MOONRING_MODEL_BLOCKS_STATE_SPACE_MIXER_H_

// A selective state space model as a block's mixer (Mamba-2: Dao and Gu, arXiv:2405.21060; Granite
// 4). With n = norm_a(x), H heads of P features, and G groups of H / G heads with N states each:
//
//   [z | u | B | C | d] = Wi n                                  H P, H P, G N, G N and H features
//   [u | B | C] = silu(convolution([u | B | C]) + b)            causal, depthwise
//   t     = softplus(d + c), clamped                            the step, c [H]
//   S_i   = exp(-exp(A) t_i) S_{i-1} + t_i u_i B_i^T            A [H]; S [P, N] of each head
//   y_i   = S_i C_i + D u_i                                     D [H]
//   heads = RmsNorm(y silu(z); w)                               each group of features separately
//
// The recurrence is that of the gated delta rule (delta_mixer.h) except that the old value is not
// subtracted (mixers/rule/delta_inputs.h): C, B, u, t and -exp(A) t take the roles of q, k, v, beta
// and g. So the code that splits a sequence of the delta rule over ranks is used here too.
//
// t, the recurrence and the norm are computed in fp32, or in fp64 if matmuls are in fp64.

#include <ATen/core/Tensor.h>

#include "mixers/over_ranks/planned_mixing.h"
#include "model/blocks/block_maps.h"
#include "model/blocks/block_rule.h"

namespace moonring::model {

// Returns the heads' outputs, concatenated: [T, H P] in the matmul dtype, computed from hidden_TD,
// rows of the residual stream. Collective; exceptions of `mixing` propagate.
at::Tensor MixByStateSpace(const BlockRule& rule, const BlockMaps& maps,
                           const at::Tensor& hidden_TD, mixers::PlannedMixing& mixing);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_STATE_SPACE_MIXER_H_
