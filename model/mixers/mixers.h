#ifndef MOONRING_MODEL_MIXERS_MIXERS_H_
#define MOONRING_MODEL_MIXERS_MIXERS_H_

// The mixers, one file each (mixer.h has the interface). README.md says how to add one.

#include "absl/types/span.h"
#include "model/config/mixer.h"

namespace moonring::model {

extern const Mixer kSoftmaxAttention;  // softmax_attention.cc
extern const Mixer kLatentAttention;   // latent_attention.cc
extern const Mixer kGatedDelta;        // gated_delta.cc
extern const Mixer kStateSpace;        // state_space.cc
extern const Mixer kGatedConvolution;  // gated_convolution.cc

// All of them, in the order in which inspect lists them.
absl::Span<const Mixer* const> Mixers();

}  // namespace moonring::model

#endif  // MOONRING_MODEL_MIXERS_MIXERS_H_
