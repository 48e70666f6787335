#ifndef MOONRING_OBJECTIVES_KTO_H_
#define MOONRING_OBJECTIVES_KTO_H_

// KTO (Ethayarajh et al. 2024, arXiv 2402.01306, equation 7; as TRL 0.24's KTOTrainer.kto_loss):
// answers that are desirable or undesirable, without pairs. Sequence level; the runtime divides by
// the step's examples.
//
//   desirable      w+ (1 - sigmoid(b (r - K))) + ftx * nll        r    log-prob under the policy
//                  minus that under the reference
//   undesirable    w- (1 - sigmoid(b (K - r)))                    nll  -log-prob / predictions
//   K = max(0, mean over the group of the r of *mismatched* documents: each example's prompt with
//       another's answer)
//
// K is one number per group of the step's examples (step_groups.h), from log-probs that Survey gets
// before the step's first backward, so it depends on neither ranks nor packing. No gradient flows
// through it. LLaMA-Factory divides the ftx term by the number of desirable examples of a
// micro-batch twice, so that it depends on the split. Here it is the sum over the desirable
// examples, divided by the step's examples like the other terms.
//
// Metrics, (sum, count) under LLaMA-Factory's names: rewards/chosen (b r), logps/chosen,
// logits/chosen over the desirable examples, .../rejected over the others; logits are means over
// the answers' predictions and the vocabulary. rewards/margins, the difference of the means of
// rewards/chosen and rewards/rejected, is not a sum over examples: the code that divides the sums
// computes it. kl is returned by Survey: K, a mean over groups.

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

// A batch of k examples, one document each.
struct KtoBatch {
  at::Tensor policy;     // [k] sums of log-probs over each document; differentiable
  at::Tensor reference;  // [k]
  at::Tensor targets;    // [k] number of predictions of each
  at::Tensor
      mean_logits;  // [k] sums over the predictions of the mean logit; undefined: no logits metrics
  std::vector<bool> desirable;  // [k]
  std::vector<int64_t> places;  // [k] indices in the step
};

class Kto {
 public:
  // INVALID_ARGUMENT for beta <= 0, and for weights and ftx that are negative or not finite.
  static absl::StatusOr<std::unique_ptr<Kto>> Create(KtoOptions options);

  // policy, reference [k]: log-probs of the mismatched documents of the step's k examples in the
  // step's order, the same on every rank; group >= 1. Returns the metric kl: sum = the sum of K
  // over the groups, count = their number.
  Metrics Survey(const at::Tensor& policy, const at::Tensor& reference, int64_t group);

  // The sum over the examples; 0 for none. Throws where an index is outside the step that Survey
  // got.
  Sums Loss(const KtoBatch& batch) const;

 private:
  explicit Kto(KtoOptions options) : options_(options) {}

  KtoOptions options_;
  StepGroups groups_;
  std::vector<double> divergence_;  // K, by group
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_KTO_H_
