#ifndef MOONRING_OBJECTIVES_PREFERENCE_LOSSES_H_
#define MOONRING_OBJECTIVES_PREFERENCE_LOSSES_H_

// The table of losses on preference pairs. To add a loss, add one entry in preference_losses.cc; no
// other code has the names of losses.
//
// In the entries' formulas, for one pair:
//   c, r      log-probs of the chosen and the rejected answer under the policy: sums over their
//             tokens, or means where `mean_log_probs`
//   c', r'    the same under the reference model
//   d         (c - c') - (r - r')
//   b, g, e   beta, simpo_gamma, label_smoothing
//   K, K'     max(0, mean over the pair's group of c - c'), and of r - r': through these the loss
//             depends on every pair of the group

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"

namespace moonring::objectives {

struct PreferenceOptions {
  std::string loss = "sigmoid";
  double beta = 0.1;
  double ftx = 0.0;              // weight of the chosen answer's nll per token, which is added to
                                 // the loss
  double simpo_gamma = 0.5;      // SimPO's target margin
  double label_smoothing = 0.0;  // assumed share of pairs with the wrong order
  double bco_weight = 0.0;       // weight of the BCO loss, in addition to this one
};

// The inputs of an entry's function: P pairs, fp64 [P] each.
struct Pairs {
  at::Tensor chosen, rejected;              // c, r
  at::Tensor chosen_ratio, rejected_ratio;  // c - c', r - r'; undefined without a reference
  at::Tensor chosen_known, rejected_known;  // whether the answer has any prediction (bool)
  at::Tensor chosen_divergence,
      rejected_divergence;  // K, K' of each pair's group; undefined for losses that do not use them
};

struct PairLosses {
  at::Tensor losses;                                      // fp64 [P]
  std::vector<std::pair<std::string, at::Tensor>> parts;  // further metrics, [P] each
};

struct PreferenceLoss {
  const char* name;
  const char* formula;
  const char* source;
  bool needs_reference;
  bool mean_log_probs;
  // most_smoothing: the maximum of label_smoothing e; 0: not supported. With smoothing_below_most,
  // e must be below this maximum, since the formula divides by 1 - 2e.
  double most_smoothing;
  bool smoothing_below_most;
  bool uses_divergence;  // K and K'
  PairLosses (*function)(const Pairs& pairs, const PreferenceOptions& options);
};

absl::Span<const PreferenceLoss> PreferenceLosses();

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_PREFERENCE_LOSSES_H_
