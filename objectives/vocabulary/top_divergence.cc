#include "objectives/vocabulary/top_divergence.h"

#include <limits>
#include <memory>
#include <utility>

#include <ATen/ATen.h>

#include "objectives/vocabulary/row_loss.h"

namespace moonring::objectives {
namespace {

// The log-prob that represents a probability of 0. It is finite, so that 0 times it is 0 and not
// NaN.
constexpr double kNoMass = -1e30;
// The greatest accepted sum of probabilities; log-probs in bf16 may sum to more than 1.
constexpr double kMostSum = 1.01;

class TopPass : public RowPass {
 public:
  // log_q_NM: normalized log-probs of the reference. M = K, or K + 1 where the last outcome is all
  // other ids.
  TopPass(const Divergence& divergence, at::Tensor ids_NK, at::Tensor log_q_NM)
      : divergence_(divergence),
        ids_NK_(std::move(ids_NK)),
        log_q_NM_(std::move(log_q_NM)),
        rest_(log_q_NM_.size(1) > ids_NK_.size(1)) {}

  void BeginChunk(int64_t begin, int64_t) override { begin_ = begin; }

  at::Tensor Block(at::Tensor z_RV, int64_t begin, bool differentiate) const override {
    const int64_t rows = z_RV.size(0);
    const at::Tensor ids_RK = ids_NK_.narrow(0, begin_ + begin, rows);
    at::Tensor a_RM = z_RV.div_(divergence_.temperature).gather(1, ids_RK);
    at::Tensor total_R1;  // sum over the other ids of exp(z - maximum of these z)
    if (rest_) {
      z_RV.scatter_(1, ids_RK, -std::numeric_limits<double>::infinity());
      const at::Tensor peak_R1 = z_RV.amax(1, /*keepdim=*/true);
      total_R1 = z_RV.sub_(peak_R1).exp_().sum(1, /*keepdim=*/true);
      a_RM = at::cat({a_RM, total_R1.log() + peak_R1}, 1);
    }
    const at::Tensor log_q_RM = log_q_NM_.narrow(0, begin_ + begin, rows).clone();
    const RowDivergence found =
        DivergenceOfRows(divergence_, at::log_softmax(a_RM, 1), log_q_RM, differentiate);
    if (!differentiate) return found.value_R;
    const at::Tensor gradient_RM = found.gradient_RM.div(divergence_.temperature);
    const int64_t top = ids_RK.size(1);
    if (rest_) {
      z_RV.mul_(gradient_RM.narrow(1, top, 1) / total_R1);
    } else {
      z_RV.zero_();
    }
    z_RV.scatter_(1, ids_RK, gradient_RM.narrow(1, 0, top));
    return found.value_R;
  }

 private:
  const Divergence divergence_;
  const at::Tensor ids_NK_, log_q_NM_;
  const bool rest_;
  int64_t begin_ = 0;
};

void CheckShapes(const ReferenceTop& reference, DivergenceKind kind, int64_t rows,
                 int64_t vocabulary) {
  const at::Tensor &ids = reference.ids_TK, &log_probs = reference.log_probs_TK;
  TORCH_CHECK_VALUE(ids.defined() && log_probs.defined(), kDivergenceName,
                    ": the reference needs ids and log-probs");
  TORCH_CHECK_VALUE(
      ids.dim() == 2 && ids.size(0) == rows && ids.size(1) > 0 && ids.scalar_type() == at::kLong,
      kDivergenceName, ": ids of shape ", ids.sizes(), " of ", ids.scalar_type(),
      ", expected int64 [", rows, ", K]");
  TORCH_CHECK_VALUE(log_probs.sizes() == ids.sizes() && log_probs.is_floating_point(),
                    kDivergenceName, ": log_probs of shape ", log_probs.sizes(), " of ",
                    log_probs.scalar_type(), ", expected floating ", ids.sizes(), " as the ids");
  TORCH_CHECK_VALUE(reference.rest != Rest::kBucket || ids.size(1) < vocabulary, kDivergenceName,
                    ": ", ids.size(1), " ids of ", vocabulary,
                    " leave no rest: expected fewer, or another rest than bucket");
  TORCH_CHECK_VALUE(reference.rest != Rest::kZero || kind != DivergenceKind::kReverse,
                    kDivergenceName,
                    ": reverse is infinite where the reference gives the rest no mass: expected "
                    "another rest than "
                    "zero");
}

// Checks values (not shapes) of the rows with a target.
void CheckNumbers(const at::Tensor& ids_NK, const at::Tensor& log_probs_NK, Rest rest,
                  DivergenceKind kind, int64_t vocabulary) {
  if (ids_NK.size(0) == 0) return;
  const int64_t least = ids_NK.min().item<int64_t>(), most = ids_NK.max().item<int64_t>();
  TORCH_CHECK_VALUE(least >= 0 && most < vocabulary, kDivergenceName,
                    ": an id of the reference is ", least < 0 ? least : most,
                    ", the vocabulary has ", vocabulary, " ids");
  const at::Tensor sorted = std::get<0>(ids_NK.sort(1));
  TORCH_CHECK_VALUE(!sorted.diff(1, 1).eq(0).any().item<bool>(), kDivergenceName,
                    ": an id of the reference occurs twice in one row");
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  TORCH_CHECK_VALUE(log_probs_NK.lt(kInfinite).all().item<bool>(), kDivergenceName,
                    ": a log-prob of the reference is NaN or infinite");
  TORCH_CHECK_VALUE(log_probs_NK.amax(1).gt(-kInfinite).all().item<bool>(), kDivergenceName,
                    ": all log-probs of a row of the reference are -inf");
  TORCH_CHECK_VALUE(kind != DivergenceKind::kReverse || log_probs_NK.isfinite().all().item<bool>(),
                    kDivergenceName,
                    ": reverse is infinite where the reference's log-prob of an id is -inf");
  const double sum = log_probs_NK.exp().sum(1).max().item<double>();
  TORCH_CHECK_VALUE(
      rest != Rest::kBucket || sum <= kMostSum, kDivergenceName,
      ": the reference's probabilities of a row's ids sum to ", sum,
      ", expected 1 at most: with the rest in a bucket they must be log-probs over the "
      "whole vocabulary");
}

// The reference's normalized log-probs of the outcomes, in fp64.
at::Tensor Outcomes(const at::Tensor& log_probs_NK, Rest rest, bool stored_in_fp64) {
  const at::Tensor top_NK = at::log_softmax(log_probs_NK, 1);
  const auto none = [&] { return at::full({log_probs_NK.size(0), 1}, kNoMass, top_NK.options()); };
  if (rest == Rest::kRenormalize) return top_NK.clamp_min(kNoMass);
  if (rest == Rest::kZero) return at::cat({top_NK, none()}, 1).clamp_min_(kNoMass);
  const double open = stored_in_fp64 ? std::numeric_limits<double>::epsilon()
                                     : std::numeric_limits<float>::epsilon();
  const at::Tensor left_N1 = log_probs_NK.exp().sum(1, true).neg_().add_(1.0).clamp_min_(open);
  return at::log_softmax(at::cat({log_probs_NK, left_N1.log_()}, 1), 1).clamp_min_(kNoMass);
}

}  // namespace

at::Tensor TokenDivergence(const at::Tensor& hidden_TD,
                           const std::shared_ptr<base::Parameter>& head_VD,
                           const at::Tensor& targets_T, const ReferenceTop& reference,
                           const Divergence& divergence, const ProjectionOptions& options) {
  TORCH_CHECK_VALUE(head_VD != nullptr, kDivergenceName, ": no head");
  CheckProjection(kDivergenceName, hidden_TD, *head_VD, options);
  CheckDivergence(kDivergenceName, divergence);
  const int64_t vocabulary = options.vocabulary > 0 ? options.vocabulary : head_VD->shape()[0];
  CheckShapes(reference, divergence.kind, hidden_TD.size(0), vocabulary);
  const at::Tensor rows_N =
      RowsWithTarget(kDivergenceName, targets_T, hidden_TD.size(0), hidden_TD.device());
  const auto of_rows = [&](const at::Tensor& all) {
    return all.detach().to(rows_N.device()).index_select(0, rows_N);
  };
  const at::Tensor ids_NK = of_rows(reference.ids_TK),
                   log_probs_NK = of_rows(reference.log_probs_TK).to(at::kDouble);
  CheckNumbers(ids_NK, log_probs_NK, reference.rest, divergence.kind, vocabulary);
  const bool stored_in_fp64 = reference.log_probs_TK.scalar_type() == at::kDouble;
  const at::Tensor log_q_NM = Outcomes(log_probs_NK, reference.rest, stored_in_fp64);
  return LossOfRows(
      {.name = kDivergenceName,
       .begin = [=](const at::Tensor&, at::ScalarType dtype) -> std::unique_ptr<RowPass> {
         return std::make_unique<TopPass>(divergence, ids_NK, log_q_NM.to(dtype));
       }},
      hidden_TD, head_VD, targets_T, options);
}

}  // namespace moonring::objectives
