#ifndef MOONRING_MODEL_FIRST_NONFINITE_H_
#define MOONRING_MODEL_FIRST_NONFINITE_H_

// The first module of a forward pass whose output contains a NaN or an infinity.

#include <memory>
#include <string>

#include "model/transformer.h"

namespace moonring::model {

struct NonFinite {
  int place = 0;       // position among the modules, from 1; 0: none on this rank
  std::string module;  // its published name
};

// Runs a forward without an autograd graph, and returns the first module after which the hidden
// states of this rank's rows contain a NaN or an infinity. Where a hook (StreamHooks::after)
// replaces a module's output, the replacement is checked. The arguments are those of
// Transformer::Forward.
NonFinite FirstNonFinite(Transformer& transformer, const at::Tensor& ids_T,
                         const at::Tensor& positions_T,
                         std::shared_ptr<attention::PlannedAttention> attention,
                         ForwardOptions options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FIRST_NONFINITE_H_
