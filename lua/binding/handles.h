#ifndef MOONRING_LUA_BINDING_HANDLES_H_
#define MOONRING_LUA_BINDING_HANDLES_H_

// Structs that one binding creates and another one uses. They combine objects of several C++
// libraries, so no single library can define them.

#include <memory>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "attention/hooks/document_keys.h"
#include "base/autograd/parameter.h"
#include "kernels/products/product_choice.h"
#include "mixers/over_ranks/mixing_planner.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "objectives/vocabulary/head_low_rank.h"

namespace moonring::comm {
class Mesh;
}  // namespace moonring::comm

namespace moonring::lua {

struct ParameterList {
  base::Parameters parameters;
};

// The output head: logits = softcap tanh(scale W h / softcap), or scale W h if softcap is 0. With
// low_rank, W h + m B A h replaces W h.
struct Head {
  std::shared_ptr<base::Parameter> weight_VD;
  double scale = 1.0, softcap = 0.0;
  kernels::ProductChoice products;
  std::optional<objectives::HeadLowRank> low_rank;
};

// The attention plan of a micro-batch (which tokens attend to which), the plan of other mixers, and
// the properties of its documents that a model needs.
struct AttentionPlan {
  std::shared_ptr<attention::PlannedAttention> attention;
  std::shared_ptr<mixers::PlannedMixing> mixing;
  at::Tensor lengths_T;  // document length for each local row: comm::LengthsOfTokens
  bool shares_prefixes = false;
  bool masks_have_parents = false;  // `mixing` does not support such masks
  // The keys of whole documents, for hooks inside blocks; null with shifted attention.
  std::shared_ptr<const attention::DocumentKeys> keys;
};

// An attention strategy and the mesh over whose sequence-parallel (sp) axis it runs. The strategy
// states how tokens must be divided over the ranks; the mesh computes that layout.
struct MeshAttention {
  std::shared_ptr<comm::Mesh> mesh;
  std::shared_ptr<attention::Attention> strategy;
  std::optional<std::string> kernels;  // names of the GPU kernels; nullopt if there is no choice
  mixers::MixingOptions mixing;        // for layers other than softmax attention
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_HANDLES_H_
