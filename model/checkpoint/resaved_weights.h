#ifndef MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_

// Reads models that Transformers 5.23 has saved in another form than the originally published one.
// In these files some modules have another name (Family::resaved_modules), and the three
// convolution filters over queries, keys and values of a gated delta rule, which Transformers joins
// in memory, have been cut into three filters of equal length. The weights are presented, and later
// saved, in the originally published form.

#include <memory>

#include "model/config/config.h"
#include "model/files/weight_store.h"

namespace moonring::model {

// Wraps `files`; returns `files` itself if no weight in it has that other form. Weights that exist
// in neither form stay missing.
std::unique_ptr<WeightStore> AsPublished(std::unique_ptr<WeightStore> files,
                                         const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_
