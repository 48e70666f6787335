#ifndef MOONRING_OBJECTIVES_REWARD_H_
#define MOONRING_OBJECTIVES_REWARD_H_

// A reward model: a number a document, the value head's of its last token, learnt from pairs.
//
//   score_d = v . drop(h_last(d)) + b              [1, D] weight v, [1] bias b: Parameters, whose
//                                                  gradients go to them, not into the graph
//   loss of a pair = -log sigmoid(score chosen - score rejected)
//       (Bradley-Terry; LLaMA-Factory's stage rm)
//
// The last token lies on one rank of the sp group, which alone uses the head; the scores are then
// summed over the group, with identity backward: the head is used before the all-reduce, so its
// gradient is this rank's share, like any other parameter's. drop: with probability p an element is
// 0, else divided by 1 - p, by random numbers of (seed, step, token, element): the same wherever
// the token lies.
//
// Cost: documents x D; one all-reduce of 8 bytes a document, forward alone. In fp64.

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
  at::Tensor identity_T;  // int64 [T_local]: what names each token of this rank (comm/sequence.h)
};

// hidden_TD [T_local, D] of this rank, any floating type -> fp64 [documents], the same on each rank
// of the group; 0 for an empty document. Differentiable in hidden_TD; a rank without any last token
// takes part, and gives its Parameters gradients of zero. Every rank must call it, and go backward
// through it or not alike. Throws on shapes, and on a probability outside [0, 1).
at::Tensor DocumentScores(const at::Tensor& hidden_TD,
                          const std::shared_ptr<base::Parameter>& weight,
                          const std::shared_ptr<base::Parameter>& bias, const comm::Layout& layout,
                          const std::shared_ptr<comm::Communicator>& group,
                          const std::optional<ScoreDropout>& dropout = std::nullopt);

// Sequence level: scores [2P] of chosen, rejected, chosen, rejected, ... -> the sum over the pairs,
// and the metric accuracy (chosen > rejected).
Sums RewardLoss(const at::Tensor& scores);

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_REWARD_H_
