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

// Converts probabilities to the gradient of -sum_k w_k log p_k in place: sum_k w_k times (p - the
// label-smoothed target distribution, (1 - smoothing) onehot(id_k) + smoothing / V for a vocabulary
// of V ids).
void SubtractTargets(at::Tensor p_RV, const RowTargets& targets, double smoothing) {
  const double evenly = smoothing / static_cast<double>(p_RV.size(1));
  if (targets.weights_RK.defined()) {
    const at::Tensor sum_R1 = targets.weights_RK.sum(1, /*keepdim=*/true);
    if (smoothing != 0.0) p_RV.sub_(evenly);
    p_RV.mul_(sum_R1).scatter_add_(1, targets.ids_RK, targets.weights_RK * (smoothing - 1.0));
    return;
  }
  if (smoothing != 0.0) p_RV.sub_(evenly);
  p_RV.scatter_add_(1, targets.ids_RK,
                    at::full(targets.ids_RK.sizes(), smoothing - 1.0, p_RV.options()));
}

RowTargets Slice(const RowTargets& targets, int64_t begin, int64_t end) {
  const at::Tensor& weights = targets.weights_RK;
  return {targets.ids_RK.slice(0, begin, end),
          weights.defined() ? weights.slice(0, begin, end) : weights};
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

void KeptGradient(at::Tensor kept_RV, double smoothing, const RowTargets& targets,
                  const at::Tensor& total_R) {
  ForEachBlock(kept_RV, [&](int64_t begin, int64_t end) {
    at::Tensor p =
        kept_RV.slice(0, begin, end).mul_(total_R.slice(0, begin, end).reciprocal().unsqueeze(1));
    SubtractTargets(p, Slice(targets, begin, end), smoothing);
  });
}

void ScoreGradient(at::Tensor scores_RV, double softcap, double smoothing,
                   const RowTargets& targets, const at::Tensor& logsumexp_R) {
  if (!targets.weights_RK.defined() && RowsAreFused(scores_RV)) {
    return kernels::CrossEntropyRowsBackward(scores_RV, softcap, smoothing,
                                             targets.ids_RK.squeeze(1), logsumexp_R);
  }
  ForEachBlock(scores_RV, [&](int64_t begin, int64_t end) {
    at::Tensor s = scores_RV.slice(0, begin, end);
    const RowTargets of_block = Slice(targets, begin, end);
    const at::Tensor lse = logsumexp_R.slice(0, begin, end).unsqueeze(1);
    if (softcap == 0.0) return SubtractTargets(s.sub_(lse).exp_(), of_block, smoothing);
    s.div_(softcap).tanh_();
    at::Tensor gradient = s.mul(softcap).sub_(lse).exp_();
    SubtractTargets(gradient, of_block, smoothing);
    s.square_().neg_().add_(1.0).mul_(gradient);
  });
}

}  // namespace moonring::objectives
