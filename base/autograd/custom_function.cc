#include "base/autograd/custom_function.h"

#include <mutex>
#include <unordered_set>
#include <utility>

#include <ATen/ops/empty.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/saved_variable.h>

namespace moonring::base {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::VariableInfo;

class CustomNode : public torch::autograd::Node {
 public:
  explicit CustomNode(const CustomFunction& function)
      : name_(function.name),
        backward_(function.backward),
        undefined_gradients_(function.undefined_gradients),
        differentiable_backward_(function.differentiable_backward),
        mark_(function.mark) {}

  std::string name() const override { return name_; }
  const void* mark() const { return mark_; }

  // Called after the outputs have this node as grad_fn.
  void Save(const Tensors& saved, const Tensors& outputs) {
    for (const at::Tensor& tensor : saved) {
      const bool is_output = tensor.defined() && tensor.grad_fn().get() == this;
      saved_.emplace_back(tensor, is_output);
    }
    for (const at::Tensor& output : outputs) outputs_.emplace_back(output);
  }

  Tensors apply(Tensors&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK_VALUE(backward_ != nullptr, name_,
                      ": a second backward through one forward needs retain_graph in the first");
    TORCH_CHECK_VALUE(differentiable_backward_ || !at::GradMode::is_enabled(), name_,
                      ": a second derivative is not available");
    BackwardCall call;
    call.retains_graph = torch::autograd::get_current_graph_task_keep_graph();
    call.gradients = std::move(gradients);
    at::OptionalDeviceGuard guard;
    for (size_t i = 0; i < call.gradients.size(); ++i) {
      if (call.gradients[i].defined() || undefined_gradients_) continue;
      call.gradients[i] = outputs_[i].zeros(guard);
    }
    for (const SavedVariable& tensor : saved_)
      call.saved.push_back(tensor.unpack(shared_from_this()));
    for (size_t i = 0; i < num_outputs(); ++i) {
      call.wanted.push_back(task_should_compute_output(i));
    }
    if (call.retains_graph) return Checked(backward_(call));
    saved_.clear();
    return Checked(std::exchange(backward_, nullptr)(call));
  }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    saved_.clear();
    backward_ = nullptr;
  }

 private:
  Tensors Checked(Tensors results) const {
    TORCH_CHECK(results.size() <= num_outputs(), name_, ": backward gave ", results.size(),
                " gradients, there are ", num_outputs(), " inputs");
    results.resize(num_outputs());
    return results;
  }

  const std::string name_;
  std::function<Tensors(BackwardCall&)> backward_;
  const bool undefined_gradients_, differentiable_backward_;
  const void* const mark_;
  std::vector<SavedVariable> saved_;
  std::vector<VariableInfo> outputs_;
};

// Makes the autograd engine run GPU nodes on the calling thread. The engine reads this setting from
// the calling thread's state, and passes that state on to nested calls.
class OnCallingThread {
 public:
  OnCallingThread() : before_(State().get_multithreading_enabled()) {
    State().set_multithreading_enabled(false);
  }
  ~OnCallingThread() { State().set_multithreading_enabled(before_); }
  OnCallingThread(const OnCallingThread&) = delete;
  OnCallingThread& operator=(const OnCallingThread&) = delete;

 private:
  static c10::AutogradState& State() { return c10::AutogradState::get_tls_state(); }
  const bool before_;
};

Tensors Forward(const CustomFunction& function, Tensors* saved) {
  const at::AutoGradMode off(false);
  return function.forward(saved);
}

}  // namespace

Tensors Apply(const CustomFunction& function, const Tensors& inputs) {
  Tensors saved;
  if (!at::GradMode::is_enabled() || !torch::autograd::any_variable_requires_grad(inputs)) {
    return Forward(function, &saved);
  }
  const auto node =
      std::shared_ptr<CustomNode>(new CustomNode(function), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  const Tensors made = Forward(function, &saved);
  std::unordered_set<at::TensorImpl*> without_gradient;
  for (const at::Tensor& output : made) {
    if (output.defined() && !output.is_floating_point())
      without_gradient.insert(output.unsafeGetTensorImpl());
  }
  const std::vector<std::optional<at::Tensor>> raw(made.begin(), made.end());
  Tensors outputs;
  for (auto& output : torch::autograd::_wrap_outputs(
           inputs, without_gradient, /*dirty_inputs=*/{}, raw, node, /*jvp_user_function=*/nullptr,
           /*to_save_if_setup_context=*/{},
           [](const at::Tensor& tensor) { return tensor.view_as(tensor); }, /*pure_view=*/false)) {
    outputs.push_back(std::move(*output));
  }
  node->Save(saved, outputs);
  return outputs;
}

at::Tensor ApplyToOne(const CustomFunction& function, const Tensors& inputs) {
  return std::move(Apply(function, inputs)[0]);
}

const void* MarkOf(const torch::autograd::Node& node) {
  const auto* const custom = dynamic_cast<const CustomNode*>(&node);
  return custom == nullptr ? nullptr : custom->mark();
}

at::Tensor Anchor(bool requires_grad) {
  return at::empty({0}, at::kFloat).requires_grad_(requires_grad);
}

bool IsAnchor(const torch::autograd::Node& node) {
  const auto* const leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node);
  return leaf != nullptr && leaf->variable.numel() == 0;
}

Tensors Differentiate(const Tensors& roots, const Tensors& leaves, const Tensors& root_gradients,
                      const BackwardOptions& options) {
  const OnCallingThread on_calling_thread;
  return torch::autograd::grad(roots, leaves, root_gradients, options.retain_graph,
                               options.create_graph, /*allow_unused=*/true);
}

void Backpropagate(const Tensors& roots, const Tensors& root_gradients,
                   const BackwardOptions& options) {
  const OnCallingThread on_calling_thread;
  torch::autograd::backward(roots, root_gradients, options.retain_graph, options.create_graph);
}

}  // namespace moonring::base
