#ifndef MOONRING_OBJECTIVES_KTO_H_
#define MOONRING_OBJECTIVES_KTO_H_

// KTO (Ethayarajh et al. 2024, arXiv 2402.01306, equation 7; as TRL 0.24's KTOTrainer.kto_loss):
// answers that are labelled desirable or undesirable, without pairs. The loss is a sum over
// examples (level `sequence`, sums.h); the caller divides it by the number of the step's examples.
//
//   desirable      w+ (1 - sigmoid(b (r - K))) + ftx * nll        r    log-prob under the policy
//                  minus that under the reference
//   undesirable    w- (1 - sigmoid(b (K - r)))                    nll  -log-prob / predictions
//   K = max(0, mean over the group of the r of *mismatched* documents: each example's prompt with
//       another's answer)
//
// b is beta; w+ and w- are chosen_weight and rejected_weight. K is one number per group of the
// step's examples (step_groups.h). It is computed from log-probs of the whole step, which the
// caller passes to Survey() before the step's first backward, so K depends on neither ranks nor
// packing. No gradient flows through it. LLaMA-Factory divides the ftx term twice by the number of
// desirable examples of a micro-batch, so there it depends on how a step is split into
// micro-batches. Here the ftx term is the sum over the desirable examples, divided by the step's
// examples like the other terms.
//
// Metrics, (sum, count) under LLaMA-Factory's names: rewards/chosen (b r), logps/chosen,
// logits/chosen over the desirable examples, .../rejected over the others; logits are means over
// the answers' predictions and the vocabulary. rewards/margins is not among them: it is the
// difference of the means of rewards/chosen and rewards/rejected, and is computed where the sums
// are divided by the counts. Survey returns the metric kl, the mean of K over groups.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/statusor.h"
#include "objectives/step_groups.h"
#include "objectives/sums.h"

namespace moonring::objectives {

struct KtoOptions {
  double beta = 0.1;
  double chosen_weight = 1.0, rejected_weight = 1.0;
  double ftx = 0.0;
};

// A micro-batch of k examples; each is one document with a prompt and an answer.
struct KtoBatch {
  at::Tensor policy;     // [k] sums of log-probs over each document; differentiable
  at::Tensor reference;  // [k]
  at::Tensor targets;    // [k] number of predictions of each
  at::Tensor
      mean_logits;  // [k] sums over the predictions of the mean logit; undefined: no logits metrics
  std::vector<bool> desirable;  // [k]
  std::vector<int64_t> places;  // [k] index of each example in the step
};

class Kto {
 public:
  // INVALID_ARGUMENT for beta <= 0, and for weights and ftx that are negative or not finite.
  static absl::StatusOr<std::unique_ptr<Kto>> Create(KtoOptions options);

  // Computes K of each group. policy, reference [k]: log-probs of the mismatched documents (above)
  // of the step's k examples in the step's order, the same on every rank. group >= 1: examples per
  // group. Returns the metric kl: sum = the sum of K over the groups, count = their number.
  Metrics Survey(const at::Tensor& policy, const at::Tensor& reference, int64_t group);

  // The sum over the batch's examples; 0 for an empty batch. Throws where an index in `places` is
  // outside the step that Survey got.
  Sums Loss(const KtoBatch& batch) const;

 private:
  explicit Kto(KtoOptions options) : options_(options) {}

  KtoOptions options_;
  StepGroups groups_;
  std::vector<double> divergence_;  // K, by group
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_KTO_H_
