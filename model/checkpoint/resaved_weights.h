#ifndef MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_
#define MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_

// Files that Transformers 5.23 saved, of families that it reads as they were published and writes
// otherwise: modules have another name there (Family::resaved_modules), and a delta rule's filters
// of queries, keys and values, which it holds as one, are three as long as one another. Its own
// from_pretrained opens both. Here they are the published ones, by which they are saved too.

#include <memory>

#include "model/config/config.h"
#include "model/files/weight_store.h"

namespace moonring::model {

// `files` themselves where nothing in them is so. What neither has stays missing.
std::unique_ptr<WeightStore> AsPublished(std::unique_ptr<WeightStore> files,
                                         const ModelConfig& config);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CHECKPOINT_RESAVED_WEIGHTS_H_
