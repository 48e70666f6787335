#ifndef MOONRING_MODEL_CONFIG_ACTIVATION_H_
#define MOONRING_MODEL_CONFIG_ACTIVATION_H_

namespace moonring::model {

// What a block's MLP does to its gate, or to all that it makes where it has none; layers.h has the
// formulas.
enum class Activation { kSilu, kGelu, kGeluTanh, kReluSquared };

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_ACTIVATION_H_
