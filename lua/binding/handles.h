#ifndef MOONRING_LUA_BINDING_HANDLES_H_
#define MOONRING_LUA_BINDING_HANDLES_H_

// Objects that pass between the bindings of different libraries and that no core has as one object.

#include <memory>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "base/autograd/parameter.h"
#include "kernels/products/product_choice.h"
#include "mixers/plan_mixing.h"
#include "mixers/planned_mixing.h"

namespace moonring::comm {
class Mesh;
}  // namespace moonring::comm

namespace moonring::lua {

struct ParameterList {
  base::Parameters parameters;
};

// What makes logits of hidden states: softcap tanh(scale W h / softcap), or scale W h where softcap
// is 0.
struct Head {
  std::shared_ptr<base::Parameter> weight_VD;
  double scale = 1.0, softcap = 0.0;
  kernels::ProductChoice products;
};

// How a micro-batch's tokens see each other, in attention and in other mixers, and what a model
// wants to know of its documents besides.
struct AttentionPlan {
  std::shared_ptr<attention::PlannedAttention> attention;
  std::shared_ptr<mixers::PlannedMixing> mixing;
  at::Tensor lengths_T;  // of this rank's rows: comm::LengthsOfTokens
  bool shares_prefixes = false;
  bool masks_have_parents = false;  // which `mixing` knows nothing of
};

// A strategy with the mesh whose sp axis it works on: the mesh owns the layout rule, the strategy
// says which it needs.
struct MeshAttention {
  std::shared_ptr<comm::Mesh> mesh;
  std::shared_ptr<attention::Attention> strategy;
  std::optional<std::string> kernels;  // chosen on a GPU, where there is a choice
  mixers::MixingOptions mixing;        // of layers that are not softmax attention
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_HANDLES_H_
