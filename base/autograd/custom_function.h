#ifndef MOONRING_BASE_AUTOGRAD_CUSTOM_FUNCTION_H_
#define MOONRING_BASE_AUTOGRAD_CUSTOM_FUNCTION_H_

// Operators with a custom backward, like torch.autograd.Function in Python. LibTorch's C++ template
// of that name costs about ten seconds of compile time per operator; here one node class, compiled
// once, calls two functions.

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/functional/function_ref.h"

namespace torch::autograd {
struct Node;
}  // namespace torch::autograd

namespace moonring::base {

using Tensors = std::vector<at::Tensor>;

// The arguments and context of a call of the backward.
struct BackwardCall {
  Tensors gradients;  // one for each output
  // The tensors that forward saved. Unless a further backward is possible, the node keeps no other
  // reference to these tensors, so backward can free one by releasing it here
  // (base/memory/unshared.h).
  Tensors saved;
  // For each input, whether its gradient is needed.
  std::vector<bool> wanted;
  // Whether another backward through the same node may follow (retain_graph).
  bool retains_graph = false;
};

struct CustomFunction {
  std::string name;  // for error messages

  // Computes the outputs, and stores in `saved` the tensors that backward needs. Runs immediately,
  // with autograd off. Outputs of an integer dtype have no gradient.
  absl::FunctionRef<Tensors(Tensors* saved)> forward;

  // Computes a gradient for each input, in their order. An undefined tensor, or one omitted at the
  // end of the list, means no gradient. The function runs after Apply has returned, so it must
  // capture by value. It must get inputs and outputs through `saved` only, which detects writes to
  // them between forward and backward. Second derivatives exist only if the function consists of
  // differentiable operators (differentiable_backward).
  std::function<Tensors(BackwardCall& call)> backward;

  // How backward receives the gradient of an output that has none: as zeros if false, as an
  // undefined tensor if true.
  bool undefined_gradients = false;

  // Whether backward may run while autograd records it (create_graph), for a second derivative.
  bool differentiable_backward = false;

  // Identifies the function's nodes to code that inspects a graph (MarkOf); null: no such code.
  const void* mark = nullptr;
};

// Runs `function` on `inputs`, some of which may be undefined tensors. The outputs require a
// gradient if autograd is recording and an input requires one. What the function saved and captured
// is freed after its backward.
Tensors Apply(const CustomFunction& function, const Tensors& inputs);

// Like Apply, for a function with one output.
at::Tensor ApplyToOne(const CustomFunction& function, const Tensors& inputs);

// The mark of a node that Apply has recorded; null for any other node.
const void* MarkOf(const torch::autograd::Node& node);

// An additional input of a function whose weights are Parameters (parameter.h) and so no inputs. It
// has no elements. If it requires a gradient, autograd records the function's node even if no other
// input requires one. Its own gradient is always undefined.
at::Tensor Anchor(bool requires_grad);
// Whether the node is the leaf of an anchor, so that Parameters are used where the graph reaches
// it.
bool IsAnchor(const torch::autograd::Node& node);

// Options of Differentiate and Backpropagate. Both run every node on the calling thread, whatever
// the node's device. LibTorch itself would run the nodes of a GPU on a separate thread, which has
// other thread-local state (a Lua state, the current category of the memory account, the number of
// intra-op threads). Each node uses the CUDA stream of its forward, and at the end the caller's
// stream waits for all of these streams.

struct BackwardOptions {
  bool retain_graph = false;  // for another backward through the same graph
  bool create_graph = false;  // records the backward itself, for a second derivative
};

// torch.autograd.grad: the gradients of `leaves`, given those of `roots`; undefined if no root
// depends on the leaf.
Tensors Differentiate(const Tensors& roots, const Tensors& leaves, const Tensors& root_gradients,
                      const BackwardOptions& options = {});

// torch.autograd.backward: adds to the gradient of every leaf that `roots` depend on, given the
// gradients of `roots`.
void Backpropagate(const Tensors& roots, const Tensors& root_gradients,
                   const BackwardOptions& options = {});

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_CUSTOM_FUNCTION_H_
