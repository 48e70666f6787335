#include "model/stream_hooks.h"

#include <string>

#include <c10/util/Exception.h>

namespace moonring::model {
namespace {

void CheckLayer(const char* option, int64_t layer, int64_t last, const char* which) {
  TORCH_CHECK_VALUE(layer >= 0 && layer <= last, option, ": layer ", layer,
                    ", expected 0 (after the embedding) to ", last, " (", which, ")");
}

// Checks a hook's result and returns it contiguous, as a block's operators require.
at::Tensor Replacement(int64_t layer, absl::string_view module, const at::Tensor& hidden_TD,
                       const at::Tensor& other) {
  const bool fits = other.layout() == hidden_TD.layout() && other.sizes() == hidden_TD.sizes() &&
                    other.scalar_type() == hidden_TD.scalar_type() &&
                    other.device() == hidden_TD.device();
  TORCH_CHECK_VALUE(fits, "around: after layer ", layer, " (", std::string(module), ") it gave ",
                    other.scalar_type(), " ", other.sizes(), " on ", other.device(), ", expected ",
                    hidden_TD.scalar_type(), " ", hidden_TD.sizes(), " on ", hidden_TD.device());
  return other.contiguous();
}

}  // namespace

StreamPass::StreamPass(const StreamHooks& hooks, int64_t layers)
    : hooks_(hooks), layers_(layers), states_(hooks.states.size()) {
  if (hooks.upto.has_value()) CheckLayer("upto", *hooks.upto, layers, "after the last block");
  for (const int64_t layer : hooks.states) {
    CheckLayer("states", layer, blocks(),
               has_norm() ? "after the last block" : "where `upto` ends the forward");
  }
}

at::Tensor StreamPass::After(int64_t layer, absl::string_view module, at::Tensor hidden_TD) {
  if (hooks_.after != nullptr) {
    const at::Tensor other = hooks_.after(layer, module, hidden_TD);
    if (other.defined()) hidden_TD = Replacement(layer, module, hidden_TD, other);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    if (hooks_.states[i] == layer) states_[i] = hidden_TD;
  }
  return hidden_TD;
}

}  // namespace moonring::model
