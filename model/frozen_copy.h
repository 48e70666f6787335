#ifndef MOONRING_MODEL_FROZEN_COPY_H_
#define MOONRING_MODEL_FROZEN_COPY_H_

// Snapshots of models: frozen copies whose weights do not follow later optimizer steps.
//
// Memory: the bytes of the copied weights, in the dtypes in which they are stored. A copy of an
// adapted model has its own adapter and shares the base's weights. Weights that are sharded over
// ranks (ZeRO stage 3) are whole on each rank in the copy; a rank's share of the experts stays a
// share. A frozen weight that is not stored as a tensor (a quantised one) is shared.

#include <memory>

#include "absl/status/statusor.h"
#include "model/adapter.h"
#include "model/transformer.h"

namespace moonring::model {

// Copies the adapter's trainable weights; frozen ones (PiSSA's first values, fixed parts), which
// nothing changes, are shared. A collective of all ranks that share a weight.
std::shared_ptr<const Adapter> FrozenCopy(const Adapter& adapter);

// Copies a model: of one with an adapter only the adapter. `base` is the model under it; null
// without an adapter. A collective of all ranks that share a weight.
absl::StatusOr<std::unique_ptr<Transformer>> FrozenCopy(const Transformer& model,
                                                        const Transformer* base);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FROZEN_COPY_H_
