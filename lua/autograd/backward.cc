#include "lua/autograd/backward.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "absl/strings/match.h"
#include "base/autograd/custom_function.h"
#include "lua/autograd/running_backward.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"

namespace moonring::lua {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor TensorAt(lua_State* L, int index) { return Value<at::Tensor>::Read(L, index); }

bool IsTensor(lua_State* L, int index) { return Class<TensorHandle>::Test(L, index) != nullptr; }

// Reads the tensor, or the list of tensors, at `index`.
Tensors TensorsAt(lua_State* L, int index) {
  if (IsTensor(L, index)) return {TensorAt(L, index)};
  return Value<Tensors>::Read(L, index);
}

at::Tensor GradientOf(const at::Tensor& root, const at::Tensor& given) {
  if (given.defined()) {
    TORCH_CHECK_VALUE(given.sizes() == root.sizes(), "backward: gradient: expected shape ",
                      root.sizes(), ", got ", given.sizes());
    return given;
  }
  TORCH_CHECK_VALUE(root.numel() == 1, "backward: expected a loss of one element, got shape ",
                    root.sizes(), " (or a gradient of that shape: x:backward { gradient = g })");
  return at::ones_like(root);
}

// Reads the option `gradient`, for the first output only, or `gradients`, for all outputs.
Tensors GivenGradients(Options& options) {
  const at::Tensor one = TensorOption(options, "gradient");
  Tensors all = options.Get<Tensors>("gradients", {});
  if (one.defined()) return {one};
  return all;
}

base::BackwardOptions HowOf(Options& options) {
  base::BackwardOptions how;
  how.create_graph = options.Get<bool>("create_graph", false);
  how.retain_graph = options.Get<bool>("retain_graph", how.create_graph);
  return how;
}

Tensors GradientsOf(const char* name, const Tensors& outputs, const Tensors& given) {
  TORCH_CHECK_VALUE(!outputs.empty(), name, ": expected at least one output");
  TORCH_CHECK_VALUE(given.empty() || given.size() == outputs.size(), name, ": ", given.size(),
                    " gradients for ", outputs.size(), " outputs");
  Tensors gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].requires_grad(), name, ": output ", i + 1, " has no graph");
    gradients.push_back(GradientOf(outputs[i], given.empty() ? at::Tensor() : given[i]));
  }
  return gradients;
}

// Runs `body`, a backward, and adds to the error of a node without a second derivative how to get
// one.
template <typename Body>
int Differentiated(lua_State* L, const base::BackwardOptions& how, const Body& body) {
  return RunBackward(L, [&] {
    try {
      return body();
    } catch (const c10::ValueError& error) {
      const std::string text = error.what_without_backtrace();
      if (!how.create_graph || !absl::StrContains(text, "a second derivative is not available"))
        throw;
      TORCH_CHECK_VALUE(false, text,
                        ". Where it is a part of a model: model:forward and objectives.log_prob "
                        "with the option weights can be differentiated again");
    }
  });
}

int CallWithMode(lua_State* L, bool records) {
  CheckType(L, 1, LUA_TFUNCTION);
  const at::AutoGradMode mode(records);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

}  // namespace

int Backward(lua_State* L) {
  const at::Tensor loss = TensorAt(L, 1);
  const bool has_joined = IsTensor(L, 2);
  const at::Tensor joined = has_joined ? TensorAt(L, 2) : at::Tensor();
  const bool has_options = lua_type(L, 2) == LUA_TTABLE && !has_joined;
  if (!has_joined && !has_options && !lua_isnoneornil(L, 2)) TensorAt(L, 2);  // raises an error
  Options options(L, has_options ? 2 : 3);
  const at::Tensor gradient = TensorOption(options, "gradient");
  const base::BackwardOptions how = HowOf(options);
  options.Finish();
  const at::Tensor of_loss = GradientOf(loss, gradient);
  Tensors roots, gradients;
  if (loss.requires_grad()) {
    roots.push_back(loss);
    gradients.push_back(of_loss);
  }
  if (joined.defined() && joined.requires_grad()) {
    roots.push_back(joined);
    gradients.push_back(at::zeros_like(joined));
  }
  TORCH_CHECK_VALUE(
      !roots.empty(),
      "backward: this loss has no gradient: it was made of plain numbers, under no_grad, or with "
      "detach, item, tolist or objectives.logits. Make it of the log-probs; on a rank without a "
      "target loss:backward(log_probs) takes part in what the other ranks' backward communicates");
  return Differentiated(L, how, [&] {
    base::Backpropagate(roots, gradients, how);
    return 0;
  });
}

int BackwardOfAll(lua_State* L) {
  const Tensors outputs = TensorsAt(L, 1);
  Options options(L, 2);
  const Tensors given = GivenGradients(options);
  const base::BackwardOptions how = HowOf(options);
  options.Finish();
  const Tensors gradients = GradientsOf("backward", outputs, given);
  return Differentiated(L, how, [&] {
    base::Backpropagate(outputs, gradients, how);
    return 0;
  });
}

int Grad(lua_State* L) {
  const Tensors outputs = TensorsAt(L, 1), inputs = TensorsAt(L, 2);
  const bool as_list = !IsTensor(L, 2);
  Options options(L, 3);
  const Tensors given = GivenGradients(options);
  const base::BackwardOptions how = HowOf(options);
  const bool allow_unused = options.Get<bool>("allow_unused", false);
  options.Finish();
  TORCH_CHECK_VALUE(!inputs.empty(), "grad: expected at least one input");
  const Tensors gradients = GradientsOf("grad", outputs, given);
  for (size_t i = 0; i < inputs.size(); ++i)
    TORCH_CHECK_VALUE(inputs[i].requires_grad(), "grad: input ", i + 1,
                      " does not require a gradient (x:requires_grad_())");
  return Differentiated(L, how, [&] {
    const Tensors results = base::Differentiate(outputs, inputs, gradients, how);
    for (size_t i = 0; i < results.size(); ++i)
      TORCH_CHECK_VALUE(allow_unused || results[i].defined(), "grad: no output depends on input ",
                        i + 1, " (allow_unused = true gives nil)");
    if (!as_list) return Value<at::Tensor>::Push(L, results[0]);
    return Value<Tensors>::Push(L, results);
  });
}

int NoGrad(lua_State* L) { return CallWithMode(L, false); }

int WithGrad(lua_State* L) { return CallWithMode(L, true); }

std::string NameOfNode(const at::Tensor& tensor) {
  const auto& node = tensor.grad_fn();
  return node == nullptr ? "" : node->name();
}

}  // namespace moonring::lua
