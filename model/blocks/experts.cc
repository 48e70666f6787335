#include "model/blocks/experts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>

#include "comm/autograd/custom_function.h"
#include "comm/products/product_scope.h"
#include "comm/products/products.h"
#include "comm/threads/parallel_tasks.h"

namespace moonring::model {
namespace {

// Rows gathered by expert: expert e has rows [begin[e], begin[e + 1]).
using Offsets = std::vector<int64_t>;

// Runs body(expert) for each expert that has rows: side by side on the CPU, unless one has so many
// that the others would wait for it.
template <typename Body>
void ForExperts(const Offsets& begin, bool on_cpu, const Body& body) {
  std::vector<int64_t> busy;
  std::vector<double> cost;
  for (size_t e = 0; e + 1 < begin.size(); ++e) {
    if (begin[e + 1] == begin[e]) continue;
    busy.push_back(static_cast<int64_t>(e));
    cost.push_back(static_cast<double>(begin[e + 1] - begin[e]));
  }
  const int threads = at::get_num_threads();
  const bool even = !cost.empty() && *std::max_element(cost.begin(), cost.end()) * threads <=
                                         1.5 * static_cast<double>(begin.back());
  if (on_cpu && even && threads > 1) {
    const comm::ProductChoice products = comm::CurrentProducts();
    return comm::RunParallelTasks(cost, [&](int64_t task) {
      const comm::ProductScope scope(products);
      body(busy[task]);
    });
  }
  for (const int64_t e : busy) body(e);
}

// Each expert's own MLP on its rows: y = (act(x Wg^T) * (x Wu^T)) Wd^T. Weights are Wg, Wu, Wd of
// expert 0, then of 1, ...; `sums` of their gradients alike. Inputs of the operator: x, then the
// weights.
at::Tensor GroupedMlp(const at::Tensor& x_ND, const Offsets& begin, Activation activation,
                      const comm::Tensors& weights, const std::vector<WeightSum>& sums) {
  comm::Tensors inputs = {x_ND};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  const auto forward = [&](comm::Tensors* saved) -> comm::Tensors {
    const int64_t width = weights[0].size(0);
    const at::Tensor gate_NI = at::empty({x_ND.size(0), width}, x_ND.options()),
                     up_NI = at::empty_like(gate_NI), y_ND = at::empty_like(x_ND);
    ForExperts(begin, x_ND.is_cpu(), [&](int64_t e) {
      const auto rows = [&](const at::Tensor& all) {
        return all.narrow(0, begin[e], begin[e + 1] - begin[e]);
      };
      at::Tensor gate = rows(gate_NI), up = rows(up_NI), y = rows(y_ND);
      comm::ProductInto(gate, rows(x_ND), weights[3 * e].t());
      comm::ProductInto(up, rows(x_ND), weights[3 * e + 1].t());
      comm::ProductInto(y, GatedProduct(gate, up, activation), weights[3 * e + 2].t());
    });
    *saved = inputs;
    saved->insert(saved->end(), {gate_NI, up_NI});
    return {y_ND};
  };
  const auto backward = [begin, activation, sums](comm::BackwardCall& call) -> comm::Tensors {
    const size_t count = call.wanted.size();
    const at::Tensor &x_ND = call.saved[0], &gate_NI = call.saved[count],
                     &up_NI = call.saved[count + 1];
    const at::Tensor dy_ND = call.gradients[0].contiguous();
    comm::Tensors result(count);
    if (call.wanted[0]) result[0] = at::empty_like(x_ND);
    ForExperts(begin, x_ND.is_cpu(), [&](int64_t e) {
      const auto rows = [&](const at::Tensor& all) {
        return all.narrow(0, begin[e], begin[e + 1] - begin[e]);
      };
      const at::Tensor x = rows(x_ND), gate = rows(gate_NI), up = rows(up_NI), dy = rows(dy_ND);
      const size_t first = 1 + 3 * e;  // of the expert's weights among the inputs
      const auto add = [&](size_t map, const at::Tensor& dy_of_map, const at::Tensor& x_of_map) {
        if (call.wanted[first + map])
          result[first + map] = comm::GradientProduct(sums[3 * e + map], dy_of_map.t(), x_of_map);
      };
      GatedProductAgain product(gate, up, activation);
      if (call.wanted[first + 2]) add(2, dy, product.Product());
      const auto [dgate, dup] = product.Backward(comm::Product(dy, call.saved[first + 2]));
      add(0, dgate, x);
      add(1, dup, x);
      if (!call.wanted[0]) return;
      at::Tensor dx = rows(result[0]);
      comm::ProductInto(dx, dgate, call.saved[first]);
      comm::AddProduct(dx, dup, call.saved[first + 1]);
    });
    return result;
  };
  return comm::ApplyToOne({.name = "experts", .forward = forward, .backward = backward}, inputs);
}

// The tokens' choices, and the rows that they make.
struct Routing {
  at::Tensor probability_TE;  // in the stream's dtype
  at::Tensor chosen_TK;       // int64
  at::Tensor weight_TK;       // in the stream's dtype
  at::Tensor token_N;         // int64: whose row, by expert
  at::Tensor row_N;  // int64: where the k-th choice of token t, number t K + k, is among the rows
  Offsets begin;     // E + 1
};

// How often each of [0, n) occurs. On a GPU bincount would wait for the greatest number, to know
// what it knows here.
at::Tensor Occurrences(const at::Tensor& numbers, int64_t n) {
  return at::zeros({n}, numbers.options()).scatter_add_(0, numbers, at::ones_like(numbers));
}

Routing Route(const ExpertRule& rule, const Projection& router, const at::Tensor& x_TD) {
  Routing routing;
  const at::Tensor logits_TE = Project(router, x_TD);
  routing.probability_TE = at::softmax(logits_TE.to(WideDtype(logits_TE.scalar_type())), -1);
  std::tie(routing.weight_TK, routing.chosen_TK) =
      at::topk(routing.probability_TE, rule.chosen, -1);
  if (rule.normalised)
    routing.weight_TK = routing.weight_TK / routing.weight_TK.sum(-1, /*keepdim=*/true);
  const at::Tensor expert_N = routing.chosen_TK.reshape(-1);
  const at::Tensor order_N = at::argsort(expert_N, /*stable=*/true, 0, /*descending=*/false);
  routing.token_N = order_N.floor_divide(rule.chosen);
  routing.row_N =
      at::empty_like(order_N).scatter_(0, order_N, at::arange(order_N.size(0), order_N.options()));
  const at::Tensor count_E = Occurrences(expert_N, rule.count).to(at::kCPU);
  routing.begin = {0};
  for (int64_t e = 0; e < rule.count; ++e)
    routing.begin.push_back(routing.begin.back() + count_E.const_data_ptr<int64_t>()[e]);
  return routing;
}

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
at::Tensor RunExperts(const ExpertMaps& maps, const Routing& routing, const at::Tensor& x_ND,
                      Activation activation) {
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

}  // namespace

MixtureResult MixExperts(const ExpertRule& rule, Activation activation, const ExpertMaps& maps,
                         const at::Tensor& x_TD, const RouterGroups& groups) {
  TORCH_CHECK(static_cast<int64_t>(maps.experts.size()) == rule.count && rule.chosen > 0 &&
                  rule.chosen <= rule.count,
              "experts: ", maps.experts.size(), " given, ", rule.chosen, " of ", rule.count,
              " wanted");
  TORCH_CHECK(!groups.group_T.defined() || groups.group_T.size(0) == x_TD.size(0),
              "experts: ", x_TD.size(0), " rows, groups of shape ",
              groups.group_T.defined() ? groups.group_T.sizes() : at::IntArrayRef());
  const Routing routing = Route(rule, maps.router, x_TD);
  const at::Tensor y_ND =
      RunExperts(maps, routing, x_TD.index_select(0, routing.token_N), activation);
  const at::Tensor y_TKD =
      y_ND.index_select(0, routing.row_N).view({x_TD.size(0), rule.chosen, x_TD.size(1)});
  MixtureResult result{
      at::bmm(routing.weight_TK.to(y_TKD.scalar_type()).unsqueeze(1), y_TKD).squeeze(1),
      Tally(routing, groups)};
  if (!maps.shared.gate.weight_OI.defined()) return result;
  const at::Tensor shared_TD = ProjectGated(maps.shared.down, Project(maps.shared.gate, x_TD),
                                            Project(maps.shared.up, x_TD), activation);
  result.out_TD = result.out_TD + at::sigmoid(Project(maps.shared_switch, x_TD)) * shared_TD;
  return result;
}

}  // namespace moonring::model
