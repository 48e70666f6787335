#include "tests/mixers/delta_problem.h"

#include <numeric>

#include <ATen/ATen.h>

#include "base/autograd/custom_function.h"

namespace moonring::testing {
namespace {

// Seeds the CPU's generator only: the simulated device of the tests has none.
void Seed(uint64_t seed) {
  at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(seed);
}

}  // namespace

mixers::DeltaInputs MakeDeltaInputs(const DeltaProblem& problem) {
  Seed(7);
  const int64_t tokens =
      std::accumulate(problem.lengths.begin(), problem.lengths.end(), int64_t{0});
  const auto options = at::TensorOptions(at::kDouble);
  mixers::DeltaInputs inputs;
  inputs.q_THK = at::randn({tokens, problem.key_heads, problem.keys}, options);
  inputs.k_THK = at::randn({tokens, problem.key_heads, problem.keys}, options);
  if (!problem.normalize) inputs.k_THK /= inputs.k_THK.norm(2, -1, /*keepdim=*/true);
  inputs.v_THV = at::randn({tokens, problem.heads, problem.values}, options);
  std::vector<int64_t> shape = {tokens, problem.heads};
  if (problem.by_channel) shape.push_back(problem.keys);
  inputs.g = at::rand(shape, options) * (-2 * problem.decay);
  for (int64_t t = 0; problem.strong_every > 0 && t < tokens; t += problem.strong_every)
    inputs.g[t] -= 30;
  inputs.beta_TH = at::rand({tokens, problem.heads}, options);
  if (problem.initial) {
    const int64_t documents = problem.lengths.size();
    inputs.initial_DHVK =
        at::randn({documents, problem.heads, problem.values, problem.keys}, options);
  }
  return inputs;
}

mixers::DeltaOptions OptionsOf(const DeltaProblem& problem) {
  return {.scale = 0.37,
          .normalize = problem.normalize,
          .delta = problem.delta,
          .working_numbers = problem.working_numbers};
}

mixers::DeltaInputs ToDtype(const mixers::DeltaInputs& inputs, at::ScalarType dtype) {
  const auto to = [dtype](const at::Tensor& x) { return x.defined() ? x.to(dtype) : x; };
  return {to(inputs.q_THK), to(inputs.k_THK),   to(inputs.v_THV),
          to(inputs.g),     to(inputs.beta_TH), to(inputs.initial_DHVK)};
}

std::vector<NamedTensor> RunDelta(const DeltaFunction& function, const DeltaProblem& problem,
                                  at::ScalarType dtype) {
  mixers::DeltaInputs inputs = ToDtype(MakeDeltaInputs(problem), dtype);
  const std::vector<std::pair<std::string, at::Tensor>> named = {
      {"q", inputs.q_THK}, {"k", inputs.k_THK},      {"v", inputs.v_THV},
      {"g", inputs.g},     {"beta", inputs.beta_TH}, {"initial", inputs.initial_DHVK}};
  base::Tensors leaves;
  for (const auto& [name, tensor] : named)
    if (tensor.defined()) leaves.push_back(tensor.requires_grad_());
  const mixers::DeltaResult result = function(inputs, problem.lengths, OptionsOf(problem));
  Seed(11);
  const auto like = [](const at::Tensor& x) {
    return at::randn(x.sizes(), at::kDouble).to(x.scalar_type());
  };
  const at::Tensor d_out = like(result.out_THV), d_final = like(result.final_DHVK);
  std::vector<NamedTensor> tensors = {{"out", result.out_THV.detach()},
                                      {"final", result.final_DHVK.detach()}};
  base::Tensors roots, gradients;
  const auto add = [&](const at::Tensor& root, const at::Tensor& gradient) {
    if (!root.requires_grad()) return;
    roots.push_back(root);
    gradients.push_back(gradient);
  };
  add(result.out_THV, d_out);
  add(result.final_DHVK, d_final);
  if (roots.empty()) return tensors;
  const base::Tensors made = base::Differentiate(roots, leaves, gradients);
  for (size_t i = 0; i < made.size(); ++i)
    tensors.push_back(
        {"gradient of " + named[i].first, made[i].defined() ? made[i] : at::zeros_like(leaves[i])});
  return tensors;
}

}  // namespace moonring::testing
