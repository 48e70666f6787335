#include "model/blocks/router.h"

#include <limits>
#include <tuple>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

namespace moonring::model {
namespace {

// Added to the sum of the chosen sigmoid scores, to avoid division by zero, as in DeepSeek-V3's
// code.
constexpr double kLeastSum = 1e-20;

// How often each number of [0, n) occurs in `numbers`. at::bincount would wait for the GPU to read
// the maximum, which is known here.
at::Tensor Occurrences(const at::Tensor& numbers, int64_t n) {
  return at::zeros({n}, numbers.options()).scatter_add_(0, numbers, at::ones_like(numbers));
}

// The router's logits, in fp32 (fp64 for fp64).
at::Tensor Logits(const ExpertRule& rule, Projection router, const at::Tensor& x_TD) {
  const at::ScalarType wide = WideDtype(x_TD.scalar_type());
  if (!rule.wide_router || router.adapted() || x_TD.scalar_type() == wide)
    return Project(router, x_TD).to(wide);
  router.weight_OI = router.weight_OI.to(wide);
  if (router.bias_O.defined()) router.bias_O = router.bias_O.to(wide);
  if (router.sum != nullptr && router.sum->dtype() != wide) router.sum = nullptr;
  return Project(router, x_TD.to(wide));
}

// Keeps the scores of the experts in a token's best groups and sets the others to minus infinity.
at::Tensor OfBestGroups(const ExpertRule& rule, const at::Tensor& score_TE) {
  const int64_t size = rule.count / rule.groups;
  const at::Tensor best_TGB =
      std::get<0>(at::topk(score_TE.view({score_TE.size(0), rule.groups, size}), 2, -1));
  const at::Tensor chosen_TB =
      std::get<1>(at::topk(best_TGB.sum(-1), rule.chosen_groups, -1, /*largest=*/true,
                           /*sorted=*/false));
  const at::Tensor others_TG =
      at::ones({score_TE.size(0), rule.groups}, score_TE.options().dtype(at::kBool))
          .scatter_(1, chosen_TB, false);
  return score_TE.masked_fill(others_TG.repeat_interleave(size, 1),
                              -std::numeric_limits<double>::infinity());
}

void ChooseBySoftmax(const ExpertRule& rule, const at::Tensor& logits_TE, Routing& routing) {
  routing.probability_TE = at::softmax(logits_TE, -1);
  std::tie(routing.weight_TK, routing.chosen_TK) =
      at::topk(routing.probability_TE, rule.chosen, -1);
  if (rule.normalised)
    routing.weight_TK = routing.weight_TK / routing.weight_TK.sum(-1, /*keepdim=*/true);
}

void ChooseBySigmoid(const ExpertRule& rule, const at::Tensor& logits_TE,
                     const at::Tensor& correction_E, Routing& routing) {
  const at::Tensor score_TE = at::sigmoid(logits_TE);
  at::Tensor choice_TE = score_TE.detach();
  if (correction_E.defined()) choice_TE = choice_TE + correction_E;
  if (rule.groups > 1) choice_TE = OfBestGroups(rule, choice_TE);
  routing.chosen_TK = std::get<1>(at::topk(choice_TE, rule.chosen, -1));
  routing.weight_TK = score_TE.gather(1, routing.chosen_TK);
  if (rule.normalised) {
    routing.weight_TK =
        routing.weight_TK / (routing.weight_TK.sum(-1, /*keepdim=*/true) + kLeastSum);
  }
  routing.probability_TE = score_TE / score_TE.sum(-1, /*keepdim=*/true);
}

}  // namespace

Routing Route(const ExpertRule& rule, const Projection& router, const at::Tensor& correction_E,
              const at::Tensor& x_TD) {
  Routing routing;
  const at::Tensor logits_TE = Logits(rule, router, x_TD);
  if (rule.score == RouterScore::kSigmoid) {
    ChooseBySigmoid(rule, logits_TE, correction_E, routing);
  } else {
    ChooseBySoftmax(rule, logits_TE, routing);
  }
  if (rule.scale != 1.0) routing.weight_TK = routing.weight_TK * rule.scale;
  const at::Tensor expert_N = routing.chosen_TK.reshape(-1);
  const at::Tensor order_N = at::argsort(expert_N, /*stable=*/true, 0, /*descending=*/false);
  routing.token_N = order_N.floor_divide(rule.chosen);
  routing.row_N =
      at::empty_like(order_N).scatter_(0, order_N, at::arange(order_N.size(0), order_N.options()));
  routing.count_E = Occurrences(expert_N, rule.count);
  return routing;
}

ExpertOffsets HostOffsets(const Routing& routing) {
  const at::Tensor count_E = routing.count_E.to(at::kCPU);
  ExpertOffsets begin = {0};
  for (int64_t e = 0; e < count_E.size(0); ++e)
    begin.push_back(begin.back() + count_E.const_data_ptr<int64_t>()[e]);
  return begin;
}

RouterTally Tally(const Routing& routing, const RouterGroups& groups) {
  if (!groups.group_T.defined()) return {};
  const int64_t experts = routing.probability_TE.size(1);
  const at::Tensor zeros_GE = at::zeros({groups.count, experts}, routing.probability_TE.options());
  RouterTally tally{zeros_GE.index_add(0, groups.group_T, routing.probability_TE), at::Tensor()};
  const at::Tensor cell_TK = groups.group_T.unsqueeze(1) * experts + routing.chosen_TK;
  tally.chosen_GE =
      Occurrences(cell_TK.reshape(-1), groups.count * experts).view({groups.count, experts});
  return tally;
}

}  // namespace moonring::model
