#include "objectives/sft.h"

#include <numeric>

#include <ATen/ATen.h>

#include "comm/sequence.h"

namespace moonring::objectives {

int64_t Sft::Count(const at::Tensor& labels_T, absl::Span<const int64_t> lengths) const {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  TORCH_CHECK(labels_T.dim() == 1 && at::isIntegralType(labels_T.scalar_type(), false), "objectives.sft: labels ", labels_T.sizes(), " of ",
              labels_T.scalar_type(), ", wanted integers [T]");
  TORCH_CHECK(labels_T.size(0) == tokens, "objectives.sft: ", labels_T.size(0), " labels, lengths sum to ", tokens);
  const at::Tensor learnt_T = labels_T.ne(comm::kIgnore);
  int64_t count = learnt_T.sum().item<int64_t>();
  if (options_.count == SftOptions::CountBy::kLabels) return count;
  int64_t offset = 0;
  for (const int64_t length : lengths) {
    if (length > 0) count -= learnt_T[offset].item<bool>();
    offset += length;
  }
  return count;
}

Sums Sft::Loss(const at::Tensor& log_prob_T, const at::Tensor& targets_T) const {
  TORCH_CHECK(log_prob_T.dim() == 1 && log_prob_T.sizes() == targets_T.sizes(), "objectives.sft: log-probs of shape ", log_prob_T.sizes(),
              ", targets of shape ", targets_T.sizes());
  Sums sums{log_prob_T.sum(at::kDouble).neg(), {}};
  sums.metrics["nll"] = {sums.loss.item<double>(), targets_T.ne(comm::kIgnore).sum().item<double>()};
  return sums;
}

}  // namespace moonring::objectives
