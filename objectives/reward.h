#ifndef MOONRING_OBJECTIVES_REWARD_H_
#define MOONRING_OBJECTIVES_REWARD_H_

// A reward model, trained on pairs. A document's score is the value head's output at the document's
// last token.
//
//   score_d = v . drop(h_last(d)) + b              [1, D] weight v, [1] bias b: Parameters, to
//                                                  which gradients are added; not returned to
//                                                  autograd
//   loss of a pair = -log sigmoid(score chosen - score rejected)
//       (Bradley-Terry; LLaMA-Factory's stage rm)
//
// The last token is on one rank of the sp group, and only this rank uses the head. The scores are
// then summed over the group by an all-reduce, whose backward is the identity. The head is used
// before the all-reduce, so each rank has a share of the head's gradient, as for any other
// parameter. drop is dropout: an element is 0 with probability p, else divided by 1 - p. Its random
// numbers depend on (seed, step, token, element): the same on whichever rank the token is.
//
// Cost: documents x D (D: width of the hidden states h); one all-reduce of 8 bytes per document, in
// the forward only. In fp64.

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
  at::Tensor identity_T;  // int64 [T_local]: for each token of this rank a number by which
                          // dropout's random numbers are chosen (comm/sequence.h)
};

// Computes scores. hidden_TD: [T_local, D] of this rank, any floating type. Returns fp64
// [documents], the same on each rank of the group; 0 for an empty document. Differentiable in
// hidden_TD. Collective in forward and backward: all ranks must run the backward, or none. A rank
// that has no document's last token must call it too; it adds zero gradients to its Parameters.
// Throws on wrong shapes, and on a probability outside [0, 1).
at::Tensor DocumentScores(const at::Tensor& hidden_TD,
                          const std::shared_ptr<base::Parameter>& weight,
                          const std::shared_ptr<base::Parameter>& bias, const comm::Layout& layout,
                          const std::shared_ptr<comm::Communicator>& group,
                          const std::optional<ScoreDropout>& dropout = std::nullopt);

// From scores [2P] of chosen, rejected, chosen, rejected, ..., returns the sum of the pairs' losses
// and the metric accuracy (chosen > rejected). Sums are of the level `sequence` (sums.h).
Sums RewardLoss(const at::Tensor& scores);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_REWARD_H_
