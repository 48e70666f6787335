#include "objectives/reward.h"

#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"
#include "base/memory/to_device.h"
#include "comm/autograd_collectives.h"
#include "kernels/random/counter_random.h"

namespace moonring::objectives {
namespace {

// Returns v . row + b for each row of rows_ND (fp64): [N]. The gradients of v and b are added to
// their Parameters.
at::Tensor Values(const at::Tensor& rows_ND, const std::shared_ptr<base::Parameter>& weight,
                  const std::shared_ptr<base::Parameter>& bias) {
  return base::ApplyToOne(
      {.name = "objectives.document_scores",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         *saved = {rows_ND};
         return {at::mv(rows_ND, weight->Lease(at::kDouble).squeeze(0)) + bias->Lease(at::kDouble)};
       },
       .backward = [weight, bias](base::BackwardCall& call) -> base::Tensors {
         const at::Tensor &rows_ND = call.saved[0], gradient_N = call.gradients[0].to(at::kDouble);
         if (weight->trainable()) {
           weight->TakeGradient(at::mv(rows_ND.t(), gradient_N).unsqueeze(0));
         }
         if (bias->trainable()) bias->TakeGradient(gradient_N.sum().unsqueeze(0));
         return {at::outer(gradient_N, weight->Lease(at::kDouble).squeeze(0))};
       }},
      {rows_ND, base::Anchor(weight->trainable() || bias->trainable())});
}

struct LastTokens {
  std::vector<int64_t> rows, documents;  // on this rank
};

LastTokens LastTokensOf(const comm::Layout& layout, int rank) {
  LastTokens last;
  int64_t row = 0;
  for (const comm::Span& span : layout.spans(rank)) {
    row += span.tokens();
    if (span.tokens() == 0 || span.end != layout.lengths()[span.document]) continue;
    last.rows.push_back(row - 1);
    last.documents.push_back(span.document);
  }
  return last;
}

at::Tensor Dropped(const at::Tensor& rows_ND, const at::Tensor& row_index,
                   const ScoreDropout& dropout) {
  const uint64_t key = kernels::CounterKey(dropout.seed, dropout.step, "v_head.dropout");
  const at::Tensor identity_N =
      base::ToDevice(dropout.identity_T, rows_ND.device()).index_select(0, row_index);
  const at::Tensor kept =
      kernels::CounterUniform(key, identity_N, rows_ND.size(1)).ge(dropout.probability);
  return rows_ND * kept.to(at::kDouble) / (1.0 - dropout.probability);
}

void CheckScores(const at::Tensor& hidden, const base::Parameter& weight,
                 const base::Parameter& bias, const comm::Layout& layout,
                 const comm::Communicator& group, const std::optional<ScoreDropout>& dropout) {
  TORCH_CHECK(layout.ranks() == group.size(), "objectives.document_scores: a layout over ",
              layout.ranks(), " ranks, a group of ", group.size());
  TORCH_CHECK(hidden.dim() == 2 && at::isFloatingType(hidden.scalar_type()) &&
                  hidden.size(0) == layout.local_tokens(group.rank()),
              "objectives.document_scores: hidden states ", hidden.sizes(), " of ",
              hidden.scalar_type(), ", expected a floating type [",
              layout.local_tokens(group.rank()), ", hidden], this rank's tokens");
  TORCH_CHECK(weight.shape() == at::IntArrayRef({1, hidden.size(1)}),
              "objectives.document_scores: ", weight.name(), " has shape ", weight.shape(),
              ", expected [1, ", hidden.size(1), "]");
  TORCH_CHECK(bias.shape() == at::IntArrayRef({1}), "objectives.document_scores: ", bias.name(),
              " has shape ", bias.shape(), ", expected [1]");
  if (!dropout.has_value()) return;
  TORCH_CHECK(dropout->probability >= 0.0 && dropout->probability < 1.0,
              "objectives.document_scores: dropout is ", dropout->probability,
              ", expected 0 to less than 1");
  TORCH_CHECK(dropout->probability == 0.0 ||
                  (dropout->identity_T.defined() && dropout->identity_T.dim() == 1 &&
                   dropout->identity_T.size(0) == hidden.size(0)),
              "objectives.document_scores: dropout requires the identity of each of ",
              hidden.size(0), " tokens, got ",
              dropout->identity_T.defined() ? dropout->identity_T.sizes() : at::IntArrayRef());
}

}  // namespace

at::Tensor DocumentScores(const at::Tensor& hidden_TD,
                          const std::shared_ptr<base::Parameter>& weight,
                          const std::shared_ptr<base::Parameter>& bias, const comm::Layout& layout,
                          const std::shared_ptr<comm::Communicator>& group,
                          const std::optional<ScoreDropout>& dropout) {
  TORCH_CHECK(weight != nullptr && bias != nullptr, "objectives.document_scores: no value head");
  CheckScores(hidden_TD, *weight, *bias, layout, *group, dropout);
  const LastTokens last = LastTokensOf(layout, group->rank());
  const auto index = [&](const std::vector<int64_t>& numbers) {
    return base::ToDevice(numbers, hidden_TD.device());
  };
  const at::Tensor row_index = index(last.rows);
  at::Tensor rows_ND = hidden_TD.index_select(0, row_index).to(at::kDouble);
  if (dropout.has_value() && dropout->probability > 0.0)
    rows_ND = Dropped(rows_ND, row_index, *dropout);
  const at::Tensor values_N = Values(rows_ND, weight, bias);
  const at::Tensor none =
      at::zeros({static_cast<int64_t>(layout.lengths().size())}, values_N.options());
  return comm::AllReduceSumIdentityBackward(none.index_add(0, index(last.documents), values_N),
                                            group);
}

Sums RewardLoss(const at::Tensor& scores) {
  TORCH_CHECK(
      scores.dim() == 1 && scores.size(0) % 2 == 0 && at::isFloatingType(scores.scalar_type()),
      "objectives.reward_loss: scores ", scores.sizes(), " of ", scores.scalar_type(),
      ", expected a floating type [2 x pairs]");
  const at::Tensor pairs = scores.to(at::kDouble).view({-1, 2});
  const at::Tensor margin = pairs.select(1, 0) - pairs.select(1, 1);
  MetricSums sums;
  sums.AddMean("accuracy", margin.detach().gt(0), at::ones_like(margin));
  return {at::log_sigmoid(margin).neg().sum(), sums.Fetch()};
}

}  // namespace moonring::objectives
