#ifndef MOONRING_MODEL_CONFIG_ACTIVATION_H_
#define MOONRING_MODEL_CONFIG_ACTIVATION_H_

namespace moonring::model {

// What a block's MLP does to its gate; layers.h has the formulas.
enum class Activation { kSilu, kGelu, kGeluTanh };

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_ACTIVATION_H_
