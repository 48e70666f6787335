#ifndef MOONRING_OBJECTIVES_SFT_H_
#define MOONRING_OBJECTIVES_SFT_H_

// Supervised fine-tuning (and pre-training): the negated sum of the targets' log-probs, which the
// runtime divides by the step's count.
//
//   step loss = sum over the step's targets of -log p  /  sum over the step's examples of Count
//
// Count depends only on labels and lengths, so it is known before the first forward; it is
// all-reduced over dp as int64.
//   kLabels   labels that are not -100 before the shift, as LLaMA-Factory divides: where a
//             document's first token is a label (train_on_prompt, pre-training), this is one more
//             per document than there are predictions
//   kTargets  predictions, i.e. labels that are not -100 except at the start of a document
//
// A token's term may be weighted, without a gradient through the weight:
//   kDft   p                              dynamic fine-tuning (Wu et al. 2025, arXiv 2508.05629)
//   kEaft  (top_entropy / 3)^eaft_alpha   entropy-adaptive fine-tuning, as in LLaMA-Factory 0.9.5;
//                                         top_entropy is a statistic of log_prob.h
// The divisor remains the count.

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

  // labels_T: unshifted, integer, kIgnore where there is nothing to predict; lengths: of the
  // documents, summing to T.
  int64_t Count(const at::Tensor& labels_T, absl::Span<const int64_t> lengths) const;

  // Token level: from log_prob_T of this rank's rows and their targets, the sum of -log p (times
  // the weights), in fp64, and the metrics
  //   nll             the sum of -log p, without the weights, over the number of targets
  //   token_accuracy  if greedy_T is given: the share of targets that are the most likely id
  // kEaft requires top_entropy_T.
  Sums Loss(const at::Tensor& log_prob_T, const at::Tensor& targets_T,
            const at::Tensor& greedy_T = {}, const at::Tensor& top_entropy_T = {}) const;

 private:
  at::Tensor Weights(const at::Tensor& log_prob_T, const at::Tensor& top_entropy_T) const;

  SftOptions options_;
};

}  // namespace moonring::objectives

#endif  // MOONRING_OBJECTIVES_SFT_H_
