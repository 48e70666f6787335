#ifndef MOONRING_BASE_AUTOGRAD_CUSTOM_FUNCTION_H_
#define MOONRING_BASE_AUTOGRAD_CUSTOM_FUNCTION_H_

// Operators with a backward of their own: what torch.autograd.Function is in Python. LibTorch's
// template of that name costs the compiler some ten seconds for each operator; here one node class,
// compiled once, calls two functions.

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/functional/function_ref.h"

namespace moonring::base {

using Tensors = std::vector<at::Tensor>;

// What a backward is given.
struct BackwardCall {
  Tensors gradients;  // one for each output
  // What forward saved; nothing else of the node holds it, unless there is a further backward, so
  // that what is let go of here is freed (base/memory/unshared.h).
  Tensors saved;
  // For each input: whether its gradient is wanted.
  std::vector<bool> wanted;
  // A further backward through the same node may follow (retain_graph).
  bool retains_graph = false;
};

struct CustomFunction {
  std::string name;  // in messages

  // Makes the outputs, and names the tensors that backward is to have. Runs at once, and records
  // nothing. Outputs of an integer dtype have no gradient.
  absl::FunctionRef<Tensors(Tensors* saved)> forward;

  // Makes a gradient for each input, in their order; those that are undefined or left out at the
  // end are none. Runs later: it captures by value. Inputs and outputs come to it through `saved`
  // alone, which tells of writes between forward and backward. No second derivatives, unless it is
  // made of differentiable operators (differentiable_backward).
  std::function<Tensors(BackwardCall& call)> backward;

  // Where no gradient came for an output: false gives zeros, true an undefined tensor.
  bool undefined_gradients = false;

  // Whether backward may run while gradients are recorded (create_graph), for a second derivative.
  bool differentiable_backward = false;
};

// Runs `function` on `inputs`, which may hold undefined tensors. The outputs require a gradient
// where an input does and gradients are recorded. What it saved and captured is freed after its
// backward.
Tensors Apply(const CustomFunction& function, const Tensors& inputs);

// The same for a function of one output.
at::Tensor ApplyToOne(const CustomFunction& function, const Tensors& inputs);

// Both run every node on the calling thread, whatever its device: LibTorch runs those of a GPU on a
// thread of its own, where what is a thread's (a Lua state, the memory account's part, the number
// of intra-op threads) would be another's. Nodes keep the streams of their forward, and the
// caller's stream waits for theirs at the end.

struct BackwardOptions {
  bool retain_graph = false;  // for a further backward through the same graph
  bool create_graph = false;  // records the backward itself, for a second derivative
};

// torch.autograd.grad: the gradients of `leaves` from those of `roots`; undefined where a root does
// not depend on the leaf.
Tensors Differentiate(const Tensors& roots, const Tensors& leaves, const Tensors& root_gradients,
                      const BackwardOptions& options = {});

// torch.autograd.backward: adds the gradients from those of `roots` to every leaf's own.
void Backpropagate(const Tensors& roots, const Tensors& root_gradients,
                   const BackwardOptions& options = {});

}  // namespace moonring::base

#endif  // MOONRING_BASE_AUTOGRAD_CUSTOM_FUNCTION_H_
