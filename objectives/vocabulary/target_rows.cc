#include "objectives/vocabulary/target_rows.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>

#include "kernels/choice.h"
#include "kernels/cross_entropy_rows.h"
#include "objectives/vocabulary/row_blocks.h"
#include "objectives/vocabulary/row_loss.h"

namespace moonring::objectives {
namespace {

constexpr int64_t kTopLogits = 20;
constexpr int64_t kEntropyNumbers = int64_t{8} << 20;  // logits that are processed at a time, where
                                                       // the kernel is used

// The softcap preserves the order of scores, so the top ones are determined before it.
at::Tensor TopEntropy(const at::Tensor& scores_RV, double softcap) {
  at::Tensor top_RK =
      std::get<0>(scores_RV.topk(std::min(kTopLogits, scores_RV.size(1)), 1, /*largest=*/true,
                                 /*sorted=*/false));
  top_RK = top_RK.to(at::toOpMathType(top_RK.scalar_type()));
  Cap(top_RK, softcap);
  const at::Tensor log_p = at::log_softmax(top_RK, 1);
  return (log_p.exp() * log_p).sum(1).neg();
}

// Entropies over the whole vocabulary, from scores s, a few rows at a time. Used after the kernel,
// which does not overwrite s.
void EntropyOfRows(const at::Tensor& scores_RV, double softcap, const at::Tensor& logsumexp_R,
                   at::Tensor entropy_R) {
  const int64_t rows = scores_RV.size(0);
  const int64_t block =
      std::max<int64_t>(1, kEntropyNumbers / std::max<int64_t>(1, scores_RV.size(1)));
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t end = std::min(rows, begin + block);
    at::Tensor log_p = scores_RV.slice(0, begin, end)
                           .to(logsumexp_R.scalar_type(),
                               /*non_blocking=*/false, /*copy=*/true);
    Cap(log_p, softcap);
    log_p.sub_(logsumexp_R.slice(0, begin, end).unsqueeze(1));
    entropy_R.slice(0, begin, end).copy_(log_p.exp().mul_(log_p).sum(1).neg_());
  }
}

void ReduceComposed(at::Tensor scores_RV, double softcap, const at::Tensor& ids_RK,
                    const RowSums& sums) {
  ForEachBlock(scores_RV, [&](int64_t begin, int64_t end) {
    at::Tensor z = scores_RV.slice(0, begin, end);
    if (sums.top_entropy_R.defined())
      sums.top_entropy_R.slice(0, begin, end).copy_(TopEntropy(z, softcap));
    Cap(z, softcap);
    sums.picked_RK.slice(0, begin, end).copy_(z.gather(1, ids_RK.slice(0, begin, end)));
    if (sums.mean_R.defined()) sums.mean_R.slice(0, begin, end).copy_(z.mean(1));
    if (sums.greedy_R.defined()) sums.greedy_R.slice(0, begin, end).copy_(z.argmax(1));
    const at::Tensor peak = z.amax(1, /*keepdim=*/true);
    z.sub_(peak);
    const at::Tensor below_peak = sums.entropy_R.defined() ? z.clone() : at::Tensor();
    const at::Tensor total = z.exp_().sum(1);
    if (below_peak.defined()) {  // the entropy as a sum of two nonnegative terms
      const at::Tensor mean = at::mul(below_peak, z).sum(1).div_(total);
      sums.entropy_R.slice(0, begin, end).copy_(total.log().sub_(mean));
    }
    sums.total_R.slice(0, begin, end).copy_(total);
    sums.logsumexp_R.slice(0, begin, end).copy_(total.log().add_(peak.squeeze(1)));
  });
}

// Subtracts the label-smoothed target distribution from probabilities, in place: (1 - smoothing)
// onehot(target) + smoothing / V for a vocabulary of V ids.
void SubtractTarget(at::Tensor p_RV, const at::Tensor& targets_R, double smoothing) {
  if (smoothing != 0.0) p_RV.sub_(smoothing / static_cast<double>(p_RV.size(1)));
  const at::Tensor targets = targets_R.unsqueeze(1);
  p_RV.scatter_add_(1, targets, at::full(targets.sizes(), smoothing - 1.0, p_RV.options()));
}

}  // namespace

RowSums Rows(const RowSums& sums, int64_t begin, int64_t count) {
  const auto rows = [&](const at::Tensor& all) {
    return all.defined() ? all.narrow(0, begin, count) : all;
  };
  return {rows(sums.picked_RK), rows(sums.logsumexp_R),   rows(sums.total_R),  rows(sums.mean_R),
          rows(sums.greedy_R),  rows(sums.top_entropy_R), rows(sums.entropy_R)};
}

bool RowsAreFused(const at::Tensor& tensor) {
  return kernels::UseKernel(tensor, kernels::kCrossEntropyRows);
}

void ReduceRows(at::Tensor scores_RV, double softcap, const at::Tensor& ids_RK,
                const RowSums& sums) {
  if (ids_RK.size(1) != 1 || !RowsAreFused(scores_RV))
    return ReduceComposed(scores_RV, softcap, ids_RK, sums);
  kernels::CrossEntropyRows(scores_RV, softcap, ids_RK.squeeze(1),
                            {.picked_R = sums.picked_RK.squeeze(1),
                             .logsumexp_R = sums.logsumexp_R,
                             .mean_R = sums.mean_R,
                             .greedy_R = sums.greedy_R});
  if (sums.top_entropy_R.defined()) sums.top_entropy_R.copy_(TopEntropy(scores_RV, softcap));
  if (sums.entropy_R.defined()) EntropyOfRows(scores_RV, softcap, sums.logsumexp_R, sums.entropy_R);
}

void KeptGradient(at::Tensor kept_RV, double smoothing, const at::Tensor& targets_R,
                  const at::Tensor& total_R) {
  ForEachBlock(kept_RV, [&](int64_t begin, int64_t end) {
    at::Tensor p =
        kept_RV.slice(0, begin, end).mul_(total_R.slice(0, begin, end).reciprocal().unsqueeze(1));
    SubtractTarget(p, targets_R.slice(0, begin, end), smoothing);
  });
}

void ScoreGradient(at::Tensor scores_RV, double softcap, double smoothing,
                   const at::Tensor& targets_R, const at::Tensor& logsumexp_R) {
  if (RowsAreFused(scores_RV)) {
    return kernels::CrossEntropyRowsBackward(scores_RV, softcap, smoothing, targets_R, logsumexp_R);
  }
  ForEachBlock(scores_RV, [&](int64_t begin, int64_t end) {
    at::Tensor s = scores_RV.slice(0, begin, end);
    const at::Tensor targets = targets_R.slice(0, begin, end);
    const at::Tensor lse = logsumexp_R.slice(0, begin, end).unsqueeze(1);
    if (softcap == 0.0) return SubtractTarget(s.sub_(lse).exp_(), targets, smoothing);
    s.div_(softcap).tanh_();
    at::Tensor gradient = s.mul(softcap).sub_(lse).exp_();
    SubtractTarget(gradient, targets, smoothing);
    s.square_().neg_().add_(1.0).mul_(gradient);
  });
}

}  // namespace moonring::objectives
