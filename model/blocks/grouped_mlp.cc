#include "model/blocks/grouped_mlp.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "base/threads/parallel_tasks.h"
#include "kernels/products/product_scope.h"
#include "kernels/products/products.h"
#include "model/blocks/expert_stacks.h"
#include "model/blocks/gated_product.h"

namespace moonring::model {
namespace {

// Runs body(expert) for each expert that has rows: in parallel on the CPU, unless one expert has so
// many rows that the other threads would wait for it.
template <typename Body>
void ForExperts(const ExpertOffsets& begin, bool on_cpu, const Body& body) {
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
    const kernels::ProductChoice products = kernels::CurrentProducts();
    return base::RunParallelTasks(cost, [&](int64_t task) {
      const kernels::ProductScope scope(products);
      body(busy[task]);
    });
  }
  for (const int64_t e : busy) body(e);
}

// Returns a function that selects the rows of expert `e` of a tensor.
auto RowsOf(const ExpertOffsets& begin, int64_t e) {
  return [first = begin[e], count = begin[e + 1] - begin[e]](const at::Tensor& all) {
    return all.narrow(0, first, count);
  };
}

// Adds x^T dy, the gradient of expert e's matrix in y = x W, to the gradient of the stacked tensor.
void AddGradient(const ExpertStacks& stacks, const at::Tensor& stack, int64_t e,
                 const at::Tensor& x, const at::Tensor& dy, double beta) {
  const at::Tensor part = stack.select(0, e);
  stacks.transposed() ? kernels::AddProduct(part, x.t(), dy, beta)
                      : kernels::AddProduct(part, dy.t(), x, beta);
}

// The tensor that accumulates the gradient of a stacked tensor: that of its WeightSum, or a new
// one. The gradient of an expert without rows is zero.
struct StackGradient {
  StackGradient(const at::Tensor& stack, const WeightSum& sum, bool wanted,
                const ExpertOffsets& begin)
      : adds(sum != nullptr) {
    if (!wanted) return;
    whole = adds ? sum->Whole(stack.sizes(), stack.options()) : at::empty_like(stack);
    for (size_t e = 0; !adds && e + 1 < begin.size(); ++e) {
      if (begin[e] == begin[e + 1]) whole.select(0, static_cast<int64_t>(e)).zero_();
    }
  }
  double beta() const { return adds ? 1.0 : 0.0; }
  at::Tensor Result() const { return adds ? at::Tensor() : whole; }

  bool adds;
  at::Tensor whole;
};

}  // namespace

at::Tensor GroupedMlp(const at::Tensor& x_ND, const ExpertOffsets& begin, Activation activation,
                      const base::Tensors& weights, const std::vector<WeightSum>& sums) {
  base::Tensors inputs = {x_ND};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  const auto forward = [&](base::Tensors* saved) -> base::Tensors {
    int64_t width = 0;
    for (size_t e = 0; 3 * e < weights.size(); ++e) width = std::max(width, weights[3 * e].size(0));
    const bool gated = weights.size() > 1 && weights[1].defined();
    const at::Tensor gate_NI = at::empty({x_ND.size(0), width}, x_ND.options()),
                     up_NI = gated ? at::empty_like(gate_NI) : at::Tensor(),
                     y_ND = at::empty_like(x_ND);
    ForExperts(begin, x_ND.is_cpu(), [&](int64_t e) {
      const auto rows = RowsOf(begin, e);
      at::Tensor gate = rows(gate_NI), up, y = rows(y_ND);
      kernels::ProductInto(gate, rows(x_ND), weights[3 * e].t());
      if (gated) kernels::ProductInto(up = rows(up_NI), rows(x_ND), weights[3 * e + 1].t());
      kernels::ProductInto(y, GatedProduct(gate, up, activation), weights[3 * e + 2].t());
    });
    *saved = inputs;
    saved->insert(saved->end(), {gate_NI, up_NI});
    return {y_ND};
  };
  const auto backward = [begin, activation, sums](base::BackwardCall& call) -> base::Tensors {
    const size_t count = call.wanted.size();
    const at::Tensor &x_ND = call.saved[0], &gate_NI = call.saved[count],
                     &up_NI = call.saved[count + 1];
    const at::Tensor dy_ND = call.gradients[0].contiguous();
    base::Tensors result(count);
    if (call.wanted[0]) result[0] = at::empty_like(x_ND);
    ForExperts(begin, x_ND.is_cpu(), [&](int64_t e) {
      const auto rows = RowsOf(begin, e);
      const at::Tensor x = rows(x_ND), gate = rows(gate_NI), dy = rows(dy_ND),
                       up = up_NI.defined() ? rows(up_NI) : at::Tensor();
      const size_t first = 1 + 3 * e;  // index of the expert's first weight among the inputs
      const auto add = [&](size_t map, const at::Tensor& dy_of_map, const at::Tensor& x_of_map) {
        if (call.wanted[first + map])
          result[first + map] =
              kernels::GradientProduct(sums[3 * e + map], dy_of_map.t(), x_of_map);
      };
      GatedProductAgain product(gate, up, activation);
      if (call.wanted[first + 2]) add(2, dy, product.Product());
      const auto [dgate, dup] = product.Backward(kernels::Product(dy, call.saved[first + 2]));
      add(0, dgate, x);
      if (dup.defined()) add(1, dup, x);
      if (!call.wanted[0]) return;
      at::Tensor dx = rows(result[0]);
      kernels::ProductInto(dx, dgate, call.saved[first]);
      if (dup.defined()) kernels::AddProduct(dx, dup, call.saved[first + 1]);
    });
    return result;
  };
  return base::ApplyToOne({.name = "experts", .forward = forward, .backward = backward}, inputs);
}

at::Tensor StackedMlp(const at::Tensor& x_ND, const ExpertOffsets& begin, const ExpertRule& rule,
                      Activation activation, const Projection& gate_up, const Projection& down) {
  const at::Tensor &gate_up_bias = gate_up.bias_O, &down_bias = down.bias_O;
  const auto forward = [&](base::Tensors* saved) -> base::Tensors {
    const ExpertStacks stacks{rule};
    const at::Tensor both_NF = at::empty({x_ND.size(0), 2 * rule.intermediate}, x_ND.options()),
                     y_ND = at::empty_like(x_ND);
    ForExperts(begin, x_ND.is_cpu(), [&](int64_t e) {
      const auto rows = RowsOf(begin, e);
      at::Tensor both = rows(both_NF), y = rows(y_ND);
      kernels::ProductInto(both, rows(x_ND), stacks.Right(gate_up.weight_OI, e));
      if (gate_up_bias.defined()) both.add_(gate_up_bias.select(0, e));
      kernels::ProductInto(y, stacks.Product(both, activation), stacks.Right(down.weight_OI, e));
      if (down_bias.defined()) y.add_(down_bias.select(0, e));
    });
    *saved = {x_ND, gate_up.weight_OI, down.weight_OI, both_NF};
    return {y_ND};
  };
  const auto backward = [begin, rule, activation, gate_up_sum = gate_up.sum,
                         down_sum = down.sum](base::BackwardCall& call) -> base::Tensors {
    const ExpertStacks stacks{rule};
    const at::Tensor &x_ND = call.saved[0], &gate_up_weight = call.saved[1],
                     &down_weight = call.saved[2], &both_NF = call.saved[3];
    const at::Tensor dy_ND = call.gradients[0].contiguous();
    const StackGradient dgate_up(gate_up_weight, gate_up_sum, call.wanted[1], begin),
        ddown(down_weight, down_sum, call.wanted[2], begin);
    base::Tensors result = {at::Tensor(), dgate_up.Result(), ddown.Result(), at::Tensor(),
                            at::Tensor()};
    if (call.wanted[0]) result[0] = at::empty_like(x_ND);
    const int64_t experts = gate_up_weight.size(0);
    if (call.wanted[3]) result[3] = at::zeros({experts, both_NF.size(1)}, x_ND.options());
    if (call.wanted[4]) result[4] = at::zeros({experts, x_ND.size(1)}, x_ND.options());
    ForExperts(begin, x_ND.is_cpu(), [&](int64_t e) {
      const auto rows = RowsOf(begin, e);
      const at::Tensor x = rows(x_ND), both = rows(both_NF), dy = rows(dy_ND);
      if (call.wanted[2])
        AddGradient(stacks, ddown.whole, e, stacks.Product(both, activation), dy, ddown.beta());
      if (call.wanted[4]) result[4].select(0, e).copy_(dy.sum(0));
      const at::Tensor dboth = stacks.ProductBackward(
          kernels::Product(dy, stacks.Right(down_weight, e).t()), both, activation);
      if (call.wanted[1]) AddGradient(stacks, dgate_up.whole, e, x, dboth, dgate_up.beta());
      if (call.wanted[3]) result[3].select(0, e).copy_(dboth.sum(0));
      if (call.wanted[0])
        kernels::ProductInto(rows(result[0]), dboth, stacks.Right(gate_up_weight, e).t());
    });
    return result;
  };
  return base::ApplyToOne({.name = "stacked experts", .forward = forward, .backward = backward},
                          {x_ND, gate_up.weight_OI, down.weight_OI, gate_up_bias, down_bias});
}

}  // namespace moonring::model
