#ifndef MOONRING_MODEL_FIRST_NONFINITE_H_
#define MOONRING_MODEL_FIRST_NONFINITE_H_

// Where a forward pass first gives a NaN or an infinity.

#include <memory>
#include <string>

#include "model/transformer.h"

namespace moonring::model {

struct NonFinite {
  int place = 0;       // among the modules, from 1; 0: none on this rank
  std::string module;  // its published name
};

// Runs the model without a graph: the first module after which the hidden states of this rank's
// rows hold one, its hook's results (StreamHooks::after) in place of its own. Its arguments are
// Transformer::Forward's.
NonFinite FirstNonFinite(Transformer& transformer, const at::Tensor& ids_T,
                         const at::Tensor& positions_T,
                         std::shared_ptr<attention::PlannedAttention> attention,
                         ForwardOptions options);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FIRST_NONFINITE_H_
