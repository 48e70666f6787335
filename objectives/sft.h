#ifndef MOONRING_OBJECTIVES_SFT_H_
#define MOONRING_OBJECTIVES_SFT_H_

// Supervised fine-tuning (and pre-training): -sum of the targets' log-probs, divided by the runtime
// by the step's count.
//
//   step loss = sum over the step's targets of -log p  /  sum over the step's examples of Count
//
// Count sees labels and lengths alone, so it is known before the first forward; it is all-reduced
// over dp as int64.
//   kLabels   labels that are not -100 before the shift, as LLaMA-Factory divides: where a
//             document's first token is a label (train_on_prompt, pre-training) this is one a
//             document more than there are predictions
//   kTargets  predictions, i.e. labels that are not -100 except at the start of a document
//
// A token's term may be weighted, the weight outside the graph:
//   kDft   p                              dynamic fine-tuning (Wu et al. 2025, arXiv 2508.05629)
//   kEaft  (top_entropy / 3)^eaft_alpha   entropy-adaptive fine-tuning, as LLaMA-Factory 0.9.5 has
//                                         it; top_entropy is a statistic of log_prob
// The divisor stays the count.

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "objectives/sums.h"

namespace moonring::objectives {

struct SftOptions {
  enum class CountBy { kLabels, kTargets };
  enum class Weight { kNone, kDft, kEaft };
  CountBy count = CountBy::kLabels;
  Weight weight = Weight::kNone;
  double eaft_alpha = 1.0;
};

class Sft {
 public:
  explicit Sft(SftOptions options) : options_(options) {}

  // labels_T: unshifted, integer, kIgnore where nothing is learnt; lengths: of the documents,
  // summing to T.
  int64_t Count(const at::Tensor& labels_T, absl::Span<const int64_t> lengths) const;

  // Token level: log_prob_T of this rank's rows and their targets -> the sum of -log p (times the
  // weights), in fp64, and the metrics
  //   nll             the sum of -log p, without the weights, over the number of targets
  //   token_accuracy  where greedy_T is given: the targets that are the likeliest id, over the
  //                   number of targets
  // kEaft wants top_entropy_T.
  Sums Loss(const at::Tensor& log_prob_T, const at::Tensor& targets_T,
            const at::Tensor& greedy_T = {}, const at::Tensor& top_entropy_T = {}) const;

 private:
  at::Tensor Weights(const at::Tensor& log_prob_T, const at::Tensor& top_entropy_T) const;

  SftOptions options_;
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_SFT_H_
