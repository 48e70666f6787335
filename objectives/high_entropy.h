#ifndef MOONRING_OBJECTIVES_HIGH_ENTROPY_H_
#define MOONRING_OBJECTIVES_HIGH_ENTROPY_H_

// Selects the tokens of a step with the highest next-token entropy, so that only these contribute
// to a policy's loss (Wang et al. 2025, arXiv 2506.01939; TRL's top_entropy_quantile). They are the
// tokens whose entropy is at least a threshold: the quantile 1 - share of the entropies of all
// counted tokens (those that may contribute to the loss) of the step, with linear interpolation. In
// TRL the quantile is taken over one micro-batch of every process.

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace moonring::objectives {

// Returns the threshold, the same on every rank; infinity where no rank has a token. entropies_N:
// the entropies of this rank's counted tokens, of any floating type and any number N. Collective
// over the world. Throws on a share outside 0 .. 1; StatusError where the world fails. Cost: every
// rank receives all tokens' entropies, 8 bytes each, on the host, and sorts them.
double EntropyThreshold(const at::Tensor& entropies_N, double share, comm::Communicator& world);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_HIGH_ENTROPY_H_
