#ifndef MOONRING_OBJECTIVES_HIGH_ENTROPY_H_
#define MOONRING_OBJECTIVES_HIGH_ENTROPY_H_

// Which tokens of a step have the most open next-token distributions, so that a policy's loss is
// made of those alone (Wang et al. 2025, arXiv 2506.01939; TRL's top_entropy_quantile): those whose
// entropy is at least
//   the quantile 1 - share of the entropies of all of the step's tokens that count
// with a number between two entropies where the quantile falls between their places. In TRL the
// tokens are those of one micro-batch of every process.

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace moonring::objectives {

// entropies_N: of this rank's tokens that count, any floating type and number. The same on every
// rank: infinity where no rank has a token. Every rank of the world must call it. Throws on a share
// outside 0 .. 1; StatusError where the world fails. Cost: every rank gets all tokens' entropies, 8
// bytes each, on the host, and sorts them.
double EntropyThreshold(const at::Tensor& entropies_N, double share, comm::Communicator& world);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_HIGH_ENTROPY_H_
