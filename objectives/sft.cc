#include "objectives/sft.h"

#include <numeric>

#include <ATen/ATen.h>

#include "base/memory/to_device.h"
#include "comm/sequence.h"

namespace moonring::objectives {

int64_t Sft::Count(const at::Tensor& labels_T, absl::Span<const int64_t> lengths) const {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  TORCH_CHECK(labels_T.dim() == 1 && at::isIntegralType(labels_T.scalar_type(), false),
              "objectives.sft: labels ", labels_T.sizes(), " of ", labels_T.scalar_type(),
              ", expected integers [T]");
  TORCH_CHECK(labels_T.size(0) == tokens, "objectives.sft: ", labels_T.size(0),
              " labels, lengths sum to ", tokens);
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

at::Tensor Sft::Weights(const at::Tensor& log_prob_T, const at::Tensor& top_entropy_T) const {
  if (options_.weight == SftOptions::Weight::kDft) return log_prob_T.detach().to(at::kDouble).exp();
  TORCH_CHECK(top_entropy_T.defined() && top_entropy_T.sizes() == log_prob_T.sizes(),
              "objectives.sft: eaft requires the top_entropy of ", log_prob_T.sizes(),
              " tokens, got ", top_entropy_T.defined() ? top_entropy_T.sizes() : at::IntArrayRef());
  return top_entropy_T.detach().to(at::kDouble).div(3.0).pow(options_.eaft_alpha);
}

Sums Sft::Loss(const at::Tensor& log_prob_T, const at::Tensor& targets_T,
               const at::Tensor& greedy_T, const at::Tensor& top_entropy_T) const {
  TORCH_CHECK(log_prob_T.dim() == 1 && log_prob_T.sizes() == targets_T.sizes(),
              "objectives.sft: log-probs of shape ", log_prob_T.sizes(), ", targets of shape ",
              targets_T.sizes());
  const at::Tensor nll = log_prob_T.sum(at::kDouble).neg();
  const bool weighted = options_.weight != SftOptions::Weight::kNone;
  const at::Tensor loss =
      weighted ? log_prob_T.mul(Weights(log_prob_T, top_entropy_T)).sum().neg() : nll;
  const at::Tensor learnt_T = targets_T.ne(comm::kIgnore);
  MetricSums sums;
  sums.Add("nll", nll, learnt_T.sum());
  if (greedy_T.defined()) {
    TORCH_CHECK(greedy_T.sizes() == targets_T.sizes(), "objectives.sft: greedy of shape ",
                greedy_T.sizes(), ", targets of shape ", targets_T.sizes());
    const at::Tensor there_T = base::ToDevice(targets_T, greedy_T.device());
    sums.Add("token_accuracy", greedy_T.eq(there_T).logical_and(there_T.ne(comm::kIgnore)).sum(),
             learnt_T.sum());
  }
  return {loss, sums.Fetch()};
}

}  // namespace moonring::objectives
