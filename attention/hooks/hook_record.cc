#include "attention/hooks/hook_record.h"

#include <cmath>
#include <memory>
#include <unordered_set>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/abs.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace moonring::attention {
namespace {

using torch::autograd::Node;

// Relative to the sum of absolute values. Sums of fp64 numbers that were computed from the same
// bits differ by much less; random numbers differ by more.
constexpr double kTolerance = 1e-6;

std::shared_ptr<Node> NodeOf(const at::Tensor& tensor) {
  return torch::autograd::impl::gradient_edge(tensor).function;
}

}  // namespace

void HookRecord::Note(const char* hook, int64_t layer, const at::Tensor& result) {
  const at::NoGradGuard no_grad;
  const at::Tensor numbers = result.detach().to(at::kDouble);
  const std::pair<double, double> sums(numbers.abs().sum().item<double>(),
                                       numbers.sum().item<double>());
  if (next_ == sums_.size()) {
    sums_.push_back(sums);
    ++next_;
    return;
  }
  const auto [size, sum] = sums_[next_++];
  const bool same = !std::isfinite(size) || !std::isfinite(sums.first) ||
                    (std::abs(size - sums.first) <= kTolerance * size &&
                     std::abs(sum - sums.second) <= kTolerance * size);
  TORCH_CHECK_VALUE(same, "inside: block ", layer + 1, ": ", hook,
                    " returned other numbers when the block was recomputed for the backward (sums ",
                    sum, " and ", sums.second,
                    "): it must depend on its arguments only; random numbers can be drawn before "
                    "the forward and passed in `given`");
}

void CheckGraph(const char* hook, int64_t layer, const at::Tensor& result,
                const std::vector<at::Tensor>& inputs) {
  if (!result.requires_grad()) return;
  // A leaf's node is destroyed, and created again elsewhere, unless something refers to it.
  std::vector<std::shared_ptr<Node>> held = {NodeOf(result)};
  std::unordered_set<const Node*> seen;
  for (const at::Tensor& input : inputs) {
    if (!input.defined() || !input.requires_grad()) continue;
    held.push_back(NodeOf(input));
    seen.insert(held.back().get());
  }
  std::vector<Node*> open = {held.front().get()};
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    bool is_leaf = true;
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      is_leaf = is_leaf && !edge.is_valid();
      open.push_back(edge.function.get());
    }
    TORCH_CHECK_VALUE(!is_leaf, "inside: block ", layer + 1, ": ", hook,
                      " uses a tensor from outside the block that requires a gradient, which "
                      "would be lost: return it from `given`, and use given's");
  }
}

}  // namespace moonring::attention
