#include "model/blocks/experts.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>

#include "base/autograd/custom_function.h"
#include "model/blocks/grouped_mlp.h"
#include "model/blocks/grouped_stacks.h"

namespace moonring::model {
namespace {

// Returns `map` for a selection of the tokens. If the map has an adapter with dropout, the result
// has the global indices of these tokens.
Projection For(Projection map, const at::Tensor& tokens) {
  if (map.low_rank.has_value() && map.low_rank->dropout.identity_T.defined()) {
    map.low_rank->dropout.identity_T = map.low_rank->dropout.identity_T.index_select(0, tokens);
  }
  return map;
}

at::Tensor RunGated(const GatedMaps& maps, const at::Tensor& x, const at::Tensor& tokens,
                    Activation activation) {
  return RunMlp({For(maps.gate, tokens), For(maps.up, tokens), For(maps.down, tokens)}, x,
                activation);
}

bool Adapted(const GatedMaps& maps) {
  return maps.gate.adapted() || maps.up.adapted() || maps.down.adapted();
}

at::Tensor RunGrouped(const ExpertMaps& maps, const ExpertOffsets& begin, const at::Tensor& x_ND,
                      Activation activation) {
  base::Tensors weights;
  std::vector<WeightSum> sums;
  for (const GatedMaps& expert : maps.experts) {
    for (const Projection* map : {&expert.gate, &expert.up, &expert.down}) {
      weights.push_back(map->weight_OI);
      sums.push_back(map->sum);
    }
  }
  return GroupedMlp(x_ND, begin, activation, weights, sums);
}

// With expert parallelism: sends rows to the ranks of their experts, applies this rank's experts to
// the rows of all ranks, and sends the results back. The other ranks' experts are passed with zero
// rows, so that a rank without experts also has a leaf in its autograd graph, and runs the exchange
// in the backward together with the other ranks.
at::Tensor RunOnRanks(const ExpertRule& rule, const ExpertMaps& maps, const Routing& routing,
                      const at::Tensor& x_ND, Activation activation,
                      const comm::BinExchange& ranks) {
  const comm::BinExchange::Meeting meeting = ranks.Meet(HostOffsets(routing), x_ND.device());
  const at::Tensor x_MD = comm::ToBins(x_ND, meeting);
  if (rule.storage != ExpertStorage::kEach)
    return comm::FromBins(
        StackedMlp(x_MD, meeting.begin, rule, activation, maps.gate_up, maps.down), meeting);
  ExpertOffsets begin(ranks.first(), 0);
  begin.insert(begin.end(), meeting.begin.begin(), meeting.begin.end());
  begin.resize(rule.count + 1, meeting.begin.back());
  return comm::FromBins(RunGrouped(maps, begin, x_MD, activation), meeting);
}

RowsOfExperts RowsOfRouting(const Routing& routing) {
  return {at::empty_like(routing.row_N).scatter_(0, routing.row_N, routing.chosen_TK.reshape(-1)),
          routing.count_E.cumsum(0, at::kInt)};
}

// Applies each expert to its rows. Returns [N, D].
at::Tensor RunExperts(const ExpertRule& rule, const ExpertMaps& maps, const Routing& routing,
                      const at::Tensor& x_ND, Activation activation) {
  const bool stacked = rule.storage != ExpertStorage::kEach;
  if (stacked && CanGroup(maps.gate_up, maps.down))
    return GroupedStacks(x_ND, RowsOfRouting(routing), rule, activation, maps.gate_up, maps.down);
  const ExpertOffsets begin_E = HostOffsets(routing);
  if (stacked) return StackedMlp(x_ND, begin_E, rule, activation, maps.gate_up, maps.down);
  if (std::none_of(maps.experts.begin(), maps.experts.end(), Adapted))
    return RunGrouped(maps, begin_E, x_ND, activation);
  base::Tensors results;
  for (size_t e = 0; e < maps.experts.size(); ++e) {
    const int64_t begin = begin_E[e], count = begin_E[e + 1] - begin;
    if (count > 0)
      results.push_back(RunGated(maps.experts[e], x_ND.narrow(0, begin, count),
                                 routing.token_N.narrow(0, begin, count), activation));
  }
  return results.empty() ? x_ND : at::cat(results);
}

// Throws if the experts that this rank has are not those assigned to it.
void CheckPart(const ExpertRule& rule, const ExpertMaps& maps, const comm::BinExchange& ranks) {
  TORCH_CHECK(ranks.bins() == rule.count, "experts: ", ranks.bins(), " of ranks, expected ",
              rule.count);
  for (int64_t e = 0; e < static_cast<int64_t>(maps.experts.size()); ++e) {
    const GatedMaps& expert = maps.experts[e];
    const bool here = e >= ranks.first() && e < ranks.first() + ranks.count();
    for (const Projection* map : {&expert.gate, &expert.down})
      TORCH_CHECK((map->weight_OI.numel() > 0) == here, "experts: expert ", e, " is ",
                  here ? "this rank's, and has no numbers" : "another rank's, and has numbers");
    TORCH_CHECK(!Adapted(expert), "experts: expert ", e,
                " has an adapter, which experts of several ranks cannot have");
  }
}

}  // namespace

MixtureResult MixExperts(const ExpertRule& rule, Activation activation, const ExpertMaps& maps,
                         const at::Tensor& x_TD, const RouterGroups& groups,
                         const comm::BinExchange* ranks, const at::Tensor& routed_TD) {
  if (ranks != nullptr && ranks->alone()) ranks = nullptr;
  const bool each = rule.storage == ExpertStorage::kEach;
  const int64_t given =
      each ? static_cast<int64_t>(maps.experts.size()) : maps.gate_up.weight_OI.size(0);
  const int64_t wanted = each || ranks == nullptr ? rule.count : ranks->count();
  TORCH_CHECK(given == wanted && rule.chosen > 0 && rule.chosen <= rule.count, "experts: ", given,
              " given, expected ", wanted, "; ", rule.chosen, " of ", rule.count, " chosen");
  if (ranks != nullptr) CheckPart(rule, maps, *ranks);
  TORCH_CHECK(!groups.group_T.defined() || groups.group_T.size(0) == x_TD.size(0),
              "experts: ", x_TD.size(0), " rows, groups of shape ",
              groups.group_T.defined() ? groups.group_T.sizes() : at::IntArrayRef());
  Routing routing =
      Route(rule, maps.router, maps.router_correction_E, routed_TD.defined() ? routed_TD : x_TD);
  if (maps.scale_E.defined()) {
    const at::Tensor scale_N = maps.scale_E.index_select(0, routing.chosen_TK.reshape(-1));
    routing.weight_TK = routing.weight_TK * scale_N.view(routing.chosen_TK.sizes());
  }
  const bool mapped = maps.input.weight_OI.defined();
  const at::Tensor seen_TD = mapped ? Project(maps.input, x_TD) : x_TD;
  const at::Tensor x_ND = seen_TD.index_select(0, routing.token_N);
  const at::Tensor y_ND = ranks == nullptr
                              ? RunExperts(rule, maps, routing, x_ND, activation)
                              : RunOnRanks(rule, maps, routing, x_ND, activation, *ranks);
  const at::Tensor y_TKD =
      y_ND.index_select(0, routing.row_N).view({x_TD.size(0), rule.chosen, seen_TD.size(1)});
  MixtureResult result{
      at::bmm(routing.weight_TK.to(y_TKD.scalar_type()).unsqueeze(1), y_TKD).squeeze(1),
      Tally(routing, groups)};
  if (mapped) result.out_TD = Project(maps.output, result.out_TD);
  if (!maps.shared.gate.weight_OI.defined()) return result;
  at::Tensor shared_TD = RunMlp(maps.shared, x_TD, activation);
  if (maps.shared_switch.weight_OI.defined())
    shared_TD = at::sigmoid(Project(maps.shared_switch, x_TD)) * shared_TD;
  result.out_TD = result.out_TD + shared_TD;
  return result;
}

}  // namespace moonring::model
