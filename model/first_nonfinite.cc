#include "model/first_nonfinite.h"

#include <utility>

#include <ATen/ATen.h>

#include "absl/strings/string_view.h"

namespace moonring::model {

NonFinite FirstNonFinite(Transformer& transformer, const at::Tensor& ids_T,
                         const at::Tensor& positions_T,
                         std::shared_ptr<attention::PlannedAttention> attention,
                         ForwardOptions options) {
  NonFinite first;
  int modules = 0;
  options.hooks.after = [&, own = std::move(options.hooks.after)](
                            int64_t layer, absl::string_view module, const at::Tensor& hidden_TD) {
    const at::Tensor other = own != nullptr ? own(layer, module, hidden_TD) : at::Tensor();
    ++modules;
    if (first.place == 0 && !at::isfinite(other.defined() ? other : hidden_TD).all().item<bool>())
      first = {modules, std::string(module)};
    return other;
  };
  const at::NoGradGuard no_grad;
  transformer.Forward(ids_T, positions_T, std::move(attention), options);
  return first;
}

}  // namespace moonring::model
