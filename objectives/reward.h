#ifndef MOONRING_OBJECTIVES_REWARD_H_
#define MOONRING_OBJECTIVES_REWARD_H_

// A reward model: one number per document, the value head's output at its last token, trained on
// pairs.
//
//   score_d = v . drop(h_last(d)) + b              [1, D] weight v, [1] bias b: Parameters, to
//                                                  which gradients are added; not returned to
//                                                  autograd
//   loss of a pair = -log sigmoid(score chosen - score rejected)
//       (Bradley-Terry; LLaMA-Factory's stage rm)
//
// The last token is on one rank of the sp group, and only this rank uses the head; the scores are
// then summed over the group, with the identity as backward. Since the head is used before the
// all-reduce, its gradient is this rank's share, as for any other parameter. drop is dropout: an
// element is 0 with probability p, else divided by 1 - p. Its random numbers depend on (seed, step,
// token, element): the same on whichever rank the token is.
//
// Cost: documents x D; one all-reduce of 8 bytes per document, in the forward only. In fp64.

#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "objectives/sums.h"

namespace moonring::objectives {

struct ScoreDropout {
  double probability = 0.0;
  uint64_t seed = 0, step = 0;
  at::Tensor identity_T;  // int64 [T_local]: an identity for each token of this rank
                          // (comm/sequence.h)
};

// hidden_TD [T_local, D] of this rank, any floating type -> fp64 [documents], the same on each rank
// of the group; 0 for an empty document. Differentiable in hidden_TD. Collective, in the backward
// too: either all ranks run it or none. A rank without any last token takes part, and adds zero
// gradients to its Parameters. Throws on wrong shapes, and on a probability outside [0, 1).
at::Tensor DocumentScores(const at::Tensor& hidden_TD,
                          const std::shared_ptr<base::Parameter>& weight,
                          const std::shared_ptr<base::Parameter>& bias, const comm::Layout& layout,
                          const std::shared_ptr<comm::Communicator>& group,
                          const std::optional<ScoreDropout>& dropout = std::nullopt);

// Sequence level: scores [2P] of chosen, rejected, chosen, rejected, ... -> the sum of losses over
// the pairs, and the metric accuracy (chosen > rejected).
Sums RewardLoss(const at::Tensor& scores);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_REWARD_H_
