#ifndef MOONRING_OBJECTIVES_SFT_H_
#define MOONRING_OBJECTIVES_SFT_H_

// Supervised fine-tuning (and pre-training): the negated sum of the targets' log-probs. The caller
// divides it by the step's count, that is the sum of Count() over the step's examples:
//
//   step loss = sum over the step's targets of -log p  /  sum over the step's examples of Count
//
// Count depends only on labels and lengths, so it is known before the first forward; it is
// all-reduced over the data-parallel ranks as int64. There are two ways to count:
//   kLabels   all labels that are not -100, as in LLaMA-Factory. A label at a document's first
//             token (train_on_prompt, pre-training) is counted although no token predicts it
//   kTargets  predictions: labels that are not -100, except at the start of a document
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

  // From log_prob_T of this rank's rows and their targets, returns the sum of -log p (times the
  // weights) in fp64, of the level `token` (sums.h), and these metrics:
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
