#ifndef MOONRING_MODEL_CONFIG_ACTIVATION_H_
#define MOONRING_MODEL_CONFIG_ACTIVATION_H_

namespace moonring::model {

// The activation of a block's MLP: applied to its gate, or to its hidden features if it has no
// gate. layers.h has the formulas.
enum class Activation { kSilu, kGelu, kGeluTanh, kReluSquared };

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_ACTIVATION_H_
