#ifndef MOONRING_TRAINER_LORA_PLUS_H_
#define MOONRING_TRAINER_LORA_PLUS_H_

// LoRA+ (Hayou et al. 2024, arXiv 2402.12354): the matrix B of a low-rank adapter, which starts at
// zero, learns at `ratio` times the rate of A. As in LLaMA-Factory, one-dimensional parameters that
// train beside it (biases, norms, DoRA's magnitudes) do too.

#include "base/autograd/parameter.h"

namespace moonring::trainer {

// What the learning rate of a parameter is multiplied by: `ratio` or 1.
double LoraPlusRate(const base::Parameter& parameter, double ratio);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_LORA_PLUS_H_
