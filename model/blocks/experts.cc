#include "model/blocks/experts.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>

#include "comm/autograd/custom_function.h"
#include "model/blocks/grouped_mlp.h"

namespace moonring::model {
namespace {

// The map for some of the tokens: what an adapter drops goes by whose row it is.
Projection For(Projection map, const at::Tensor& tokens) {
  if (map.low_rank.has_value() && map.low_rank->dropout.identity_T.defined()) {
    map.low_rank->dropout.identity_T = map.low_rank->dropout.identity_T.index_select(0, tokens);
  }
  return map;
}

at::Tensor RunGated(const GatedMaps& maps, const at::Tensor& x, const at::Tensor& tokens,
                    Activation activation) {
  const at::Tensor gate = Project(For(maps.gate, tokens), x);
  return ProjectGated(For(maps.down, tokens), gate, Project(For(maps.up, tokens), x), activation);
}

bool Adapted(const GatedMaps& maps) {
  return maps.gate.low_rank.has_value() || maps.up.low_rank.has_value() ||
         maps.down.low_rank.has_value();
}

// [N, D]: each expert on its rows.
at::Tensor RunExperts(const ExpertRule& rule, const ExpertMaps& maps, const Routing& routing,
                      const at::Tensor& x_ND, Activation activation) {
  if (rule.storage != ExpertStorage::kEach)
    return StackedMlp(x_ND, routing.begin, rule, activation, maps.gate_up, maps.down);
  if (std::none_of(maps.experts.begin(), maps.experts.end(), Adapted)) {
    comm::Tensors weights;
    std::vector<WeightSum> sums;
    for (const GatedMaps& expert : maps.experts) {
      for (const Projection* map : {&expert.gate, &expert.up, &expert.down}) {
        weights.push_back(map->weight_OI);
        sums.push_back(map->sum);
      }
    }
    return GroupedMlp(x_ND, routing.begin, activation, weights, sums);
  }
  comm::Tensors results;
  for (size_t e = 0; e < maps.experts.size(); ++e) {
    const int64_t begin = routing.begin[e], count = routing.begin[e + 1] - begin;
    if (count > 0)
      results.push_back(RunGated(maps.experts[e], x_ND.narrow(0, begin, count),
                                 routing.token_N.narrow(0, begin, count), activation));
  }
  return results.empty() ? x_ND : at::cat(results);
}

}  // namespace

MixtureResult MixExperts(const ExpertRule& rule, Activation activation, const ExpertMaps& maps,
                         const at::Tensor& x_TD, const RouterGroups& groups,
                         const at::Tensor& routed_TD) {
  const int64_t given = rule.storage == ExpertStorage::kEach
                            ? static_cast<int64_t>(maps.experts.size())
                            : maps.gate_up.weight_OI.size(0);
  TORCH_CHECK(given == rule.count && rule.chosen > 0 && rule.chosen <= rule.count,
              "experts: ", given, " given, ", rule.chosen, " of ", rule.count, " wanted");
  TORCH_CHECK(!groups.group_T.defined() || groups.group_T.size(0) == x_TD.size(0),
              "experts: ", x_TD.size(0), " rows, groups of shape ",
              groups.group_T.defined() ? groups.group_T.sizes() : at::IntArrayRef());
  Routing routing =
      Route(rule, maps.router, maps.router_correction_E, routed_TD.defined() ? routed_TD : x_TD);
  if (maps.scale_E.defined()) {
    const at::Tensor scale_N = maps.scale_E.index_select(0, routing.chosen_TK.reshape(-1));
    routing.weight_TK = routing.weight_TK * scale_N.view(routing.chosen_TK.sizes());
  }
  const at::Tensor y_ND =
      RunExperts(rule, maps, routing, x_TD.index_select(0, routing.token_N), activation);
  const at::Tensor y_TKD =
      y_ND.index_select(0, routing.row_N).view({x_TD.size(0), rule.chosen, x_TD.size(1)});
  MixtureResult result{
      at::bmm(routing.weight_TK.to(y_TKD.scalar_type()).unsqueeze(1), y_TKD).squeeze(1),
      Tally(routing, groups)};
  if (!maps.shared.gate.weight_OI.defined()) return result;
  at::Tensor shared_TD = ProjectGated(maps.shared.down, Project(maps.shared.gate, x_TD),
                                      Project(maps.shared.up, x_TD), activation);
  if (maps.shared_switch.weight_OI.defined())
    shared_TD = at::sigmoid(Project(maps.shared_switch, x_TD)) * shared_TD;
  result.out_TD = result.out_TD + shared_TD;
  return result;
}

}  // namespace moonring::model
