#include "objectives/vocabulary/divergence.h"

#include <memory>
#include <utility>

#include <ATen/ATen.h>

#include "objectives/vocabulary/row_loss.h"

namespace moonring::objectives {
namespace {

// Computes the divergence. The reference's logits are computed chunk by chunk, together with the
// policy's.
class HeadPass : public RowPass {
 public:
  HeadPass(const ReferenceHead& reference, const Divergence& divergence, const at::Tensor& rows_N)
      : divergence_(divergence),
        hidden_TD_(reference.hidden_TD),
        rows_N_(rows_N),
        projection_(*reference.head_VD, reference.projection, reference.hidden_TD, rows_N) {}

  int64_t row_bytes() const override { return projection_.row_bytes(); }
  int64_t intermediates() const override { return kDivergenceIntermediates + 2; }

  void BeginChunk(int64_t begin, int64_t count) override {
    scores_RV_ = projection_.Scores(GatherRows(hidden_TD_, rows_N_, begin, count), begin);
  }

  at::Tensor Block(at::Tensor z_RV, int64_t begin, bool differentiate) const override {
    at::Tensor y_RV = scores_RV_.slice(0, begin, begin + z_RV.size(0));
    Cap(y_RV, projection_.softcap());
    const double temperature = divergence_.temperature;
    const at::Tensor log_q_RV = at::log_softmax(y_RV.to(z_RV.scalar_type()).div_(temperature), 1);
    const at::Tensor log_p_RV = at::log_softmax(z_RV.div_(temperature), 1);
    const RowDivergence found = DivergenceOfRows(divergence_, log_p_RV, log_q_RV, differentiate);
    if (differentiate) z_RV.copy_(found.gradient_RM).div_(temperature);
    return found.value_R;
  }

 private:
  const Divergence divergence_;
  const at::Tensor hidden_TD_, rows_N_;
  HeadProjection projection_;
  at::Tensor scores_RV_;
};

void CheckReference(const at::Tensor& hidden_TD, const base::Parameter& head,
                    const ReferenceHead& reference, int64_t vocabulary) {
  TORCH_CHECK_VALUE(reference.head_VD != nullptr && reference.hidden_TD.defined(), kDivergenceName,
                    ": the reference needs hidden states and a head");
  CheckProjection("objectives.divergence, the reference", reference.hidden_TD, *reference.head_VD,
                  reference.projection);
  TORCH_CHECK_VALUE(reference.hidden_TD.size(0) == hidden_TD.size(0), kDivergenceName,
                    ": the reference's hidden states have ", reference.hidden_TD.size(0),
                    " rows, the policy's ", hidden_TD.size(0));
  TORCH_CHECK_VALUE(reference.hidden_TD.device() == hidden_TD.device() &&
                        reference.head_VD->device() == head.device(),
                    kDivergenceName, ": the reference's hidden states are on ",
                    reference.hidden_TD.device(), ", its head on ", reference.head_VD->device(),
                    ", the policy's on ", hidden_TD.device(), " and ", head.device());
  const int64_t policy = head.shape()[0], other = reference.head_VD->shape()[0];
  TORCH_CHECK_VALUE(vocabulary > 0 ? vocabulary <= other : policy == other, kDivergenceName,
                    ": the policy's head ", head.name(), " has ", policy,
                    " ids, the reference's head ", reference.head_VD->name(), " ", other,
                    "; vocabulary is ", vocabulary,
                    vocabulary > 0 ? ", expected no more than either has"
                                   : ": where one of them is padded, set it to the ids of both");
}

}  // namespace

at::Tensor TokenDivergence(const at::Tensor& hidden_TD,
                           const std::shared_ptr<base::Parameter>& head_VD,
                           const at::Tensor& targets_T, const ReferenceHead& reference,
                           const Divergence& divergence, const ProjectionOptions& options) {
  TORCH_CHECK_VALUE(head_VD != nullptr, kDivergenceName, ": no head");
  CheckProjection(kDivergenceName, hidden_TD, *head_VD, options);
  CheckDivergence(kDivergenceName, divergence);
  CheckReference(hidden_TD, *head_VD, reference, options.vocabulary);
  ReferenceHead other = reference;
  other.projection.vocabulary = options.vocabulary;
  other.hidden_TD = reference.hidden_TD.detach();
  return LossOfRows({.name = kDivergenceName,
                     .tensors = {other.hidden_TD},
                     .begin = [other, divergence](const at::Tensor& rows_N,
                                                  at::ScalarType) -> std::unique_ptr<RowPass> {
                       return std::make_unique<HeadPass>(other, divergence, rows_N);
                     }},
                    hidden_TD, head_VD, targets_T, options);
}

}  // namespace moonring::objectives
