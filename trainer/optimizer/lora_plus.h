#ifndef MOONRING_TRAINER_OPTIMIZER_LORA_PLUS_H_
#define MOONRING_TRAINER_OPTIMIZER_LORA_PLUS_H_

// LoRA+ (Hayou et al. 2024, arXiv 2402.12354): the matrix B of a low-rank adapter, which is
// initialized to zero, is trained with `ratio` times the learning rate of A. As in LLaMA-Factory,
// trainable one-dimensional parameters (biases, norms, DoRA's magnitudes) get the same higher rate.

#include "base/autograd/parameter.h"

namespace moonring::trainer {

// Returns the factor for a parameter's learning rate: `ratio` or 1.
double LoraPlusRate(const base::Parameter& parameter, double ratio);

// What the option `loraplus_lr_ratio` means (base/text/fields.h).
inline constexpr char kLoraPlusMeaning[] =
    "LoRA+ (arXiv 2402.12354): factor of the learning rate of lora_B and of one-dimensional "
    "parameters";

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_LORA_PLUS_H_
