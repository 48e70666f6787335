#ifndef MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_

// Reads files that Transformers 5.23 saved in another form than the published one, for families
// that it reads in both forms: some modules have another name (Family::resaved_modules), and the
// convolution filters of a delta rule's queries, keys and values, which it joins in memory, are
// saved as three filters of equal length. They are presented, and later saved, in the published
// form.

#include <memory>

#include "model/config/config.h"
#include "model/files/weight_store.h"

namespace moonring::model {

// Returns `files` itself if nothing in it is in the resaved form. Weights that exist in neither
// form stay missing.
std::unique_ptr<WeightStore> AsPublished(std::unique_ptr<WeightStore> files,
                                         const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_
