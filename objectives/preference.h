#ifndef MOONRING_OBJECTIVES_PREFERENCE_H_
#define MOONRING_OBJECTIVES_PREFERENCE_H_

// DPO and related losses on preference pairs. The loss is a sum over pairs (level `sequence`,
// sums.h); the caller divides it by the number of the step's pairs.
//
//   loss of a pair = (L + w B) / (1 + w) + ftx * nll
//   L    one of PreferenceLosses (preference_losses.h)
//   c, r log-probs of the chosen and the rejected answer under the policy: sums over their tokens,
//        or means, as the loss requires; c', r': the same under the reference model; b: beta
//   B    -log sigmoid(b (c - c') - m) - log sigmoid(m - b (r - r')): BCO (Jung et al. 2024, arXiv
//        2404.04656), w = bco_weight
//   nll  -c / predictions of the chosen answer
//
// Groups. Some losses depend on other pairs too, through one number per *group*: group k of a step
// is its pairs [k G, (k+1) G) in the step's order. Before the step's first backward the caller
// passes the log-probs of the whole step to Survey(), so that these numbers do not depend on how
// the step is split over micro-batches and ranks:
//   m       the mean over all groups so far, with equal weights, of the group's mean reward; a
//           group is included before its own loss is computed. The mean is this object's state and
//           must be saved in checkpoints. No gradient flows through it.
//   K, K'   for losses that use them: max(0, mean of c - c' over the group), and of r - r'. Their
//           gradient is exact: with S the loss of a group of n pairs, the term (dS/dK / n) (c -
//           sg(c)) is added to each pair's loss where the mean is >= 0. sg is stop-gradient, so the
//           term's value is zero, but its gradient is not. K' has the same term with r.
// On the first step c = c', so the mean is 0 up to rounding. The sign of the rounding error then
// decides whether this gradient is used, as in TRL.
//
// Metrics, (sum, count) under LLaMA-Factory's names: rewards/chosen and rewards/rejected (b (c -
// c'), or b c without a reference), rewards/accuracies (chosen > rejected), rewards/margins,
// logps/chosen, logps/rejected (means where the loss uses means), logits/chosen, logits/rejected:
// means over the answers' predictions and the vocabulary (LLaMA-Factory and TRL also include prompt
// and padding); orpo: sft_loss, odds_ratio_loss (without ftx).
//
// Cost: nothing beyond a forward; where needs_survey(), one additional pass without gradients over
// the step. Everything is in fp64.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "objectives/preference_losses.h"
#include "objectives/step_groups.h"
#include "objectives/sums.h"

namespace moonring::objectives {

// A batch of P pairs, as documents chosen, rejected, chosen, rejected, ...
struct PreferenceBatch {
  at::Tensor policy;       // [2P] sums of log-probs over each document; differentiable
  at::Tensor reference;    // [2P]; undefined where the loss does not use it
  at::Tensor targets;      // [2P] number of predictions of each document
  at::Tensor mean_logits;  // [2P] sums over the predictions of the mean logit; undefined: no logits
                           // metrics
  std::vector<int64_t> places;  // indices of the P pairs in the step; used only by losses with
                                // groups
};

class Preference {
 public:
  // INVALID_ARGUMENT for an unknown loss (with the nearest name), beta <= 0, a negative weight,
  // label_smoothing for a loss without it or beyond its range, bco_weight for a loss without a
  // reference, and any option that is not a finite number.
  static absl::StatusOr<std::unique_ptr<Preference>> Create(PreferenceOptions options);

  bool needs_reference() const { return loss_->needs_reference; }
  bool needs_survey() const { return loss_->uses_divergence || options_.bco_weight > 0.0; }

  // Computes the numbers of each group. policy, reference, targets: [2k], as in PreferenceBatch,
  // for all k pairs of the step in the step's order, the same on every rank. group: G >= 1.
  void Survey(const at::Tensor& policy, const at::Tensor& reference, const at::Tensor& targets,
              int64_t group);

  // The sum over the batch's pairs; 0 without pairs. An answer without predictions has log-prob 0
  // (orpo: odds of one). If needs_survey(), throws where an index in `places` is outside the step
  // that Survey got.
  Sums Loss(const PreferenceBatch& batch) const;

  // The state for checkpoints, as JSON. LoadState restores it and discards the results of the last
  // Survey.
  std::string State() const;
  absl::Status LoadState(absl::string_view text);

 private:
  // The numbers of each group, as computed by the last Survey (definitions: top of this file).
  // Vectors are empty if the loss does not use them.
  struct Shared {
    std::vector<double> baseline;                                // m
    std::vector<double> chosen_divergence, rejected_divergence;  // K, K'
    std::vector<double> chosen_slope, rejected_slope;  // dS/dK / n, 0 where the mean is negative
  };

  Preference(PreferenceOptions options, const PreferenceLoss* loss)
      : options_(std::move(options)), loss_(loss) {}

  Pairs PairsOf(const at::Tensor& policy, const at::Tensor& reference,
                const at::Tensor& targets) const;
  void AddBaseline(const Pairs& pairs);
  void AddDivergence(Pairs pairs);
  PairLosses LossesOf(Pairs& pairs, const std::vector<int64_t>& places) const;
  Metrics MetricsOf(const Pairs& pairs, const PairLosses& losses,
                    const PreferenceBatch& batch) const;

  PreferenceOptions options_;
  const PreferenceLoss* loss_;
  StepGroups groups_;
  Shared shared_;
  double mean_reward_ = 0.0;  // over all groups so far
  int64_t groups_seen_ = 0;
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_PREFERENCE_H_
