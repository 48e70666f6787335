#ifndef MOONRING_MODEL_CONFIG_WEIGHTS_H_
#define MOONRING_MODEL_CONFIG_WEIGHTS_H_

// The weights of a model with a given config: their published (Hugging Face) names and shapes.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/config/block_weights.h"
#include "model/config/config.h"
#include "model/files/weight_shape.h"

namespace moonring::model {

// All required weights from the embedding to the head, in the order of a forward pass. A head that
// is tied to the embedding is not listed.
std::vector<WeightShape> WantedWeights(const ModelConfig& config);

// "model.layers.3", in the family's naming.
std::string LayerName(const ModelConfig& config, int64_t layer);

// Weight names in the family's naming, for example "model.embed_tokens.weight".
std::string EmbeddingName(const ModelConfig& config);
std::string FinalNormName(const ModelConfig& config);
std::string HeadName(const ModelConfig& config);
// Weight names of the second embedding (LayerInputRule), if the model has one.
std::string LayerTableName(const ModelConfig& config);
std::string LayerMapName(const ModelConfig& config);
std::string LayerMapNormName(const ModelConfig& config);

// Last components of the names of the modules that have a row per token: the embedding and the
// head, tied or not.
std::vector<std::string> VocabularyModules(const ModelConfig& config);

// The name of a layer's weight; "" if the layer does not have the weight. `place` is a BlockWeight
// or an ExpertWeightPlace (block_weights.h).
std::string WeightName(const ModelConfig& config, int64_t layer, int place);

// Number of entries in a layer's list of weights (BlockWeight, then the experts' weights).
int WeightPlaces(const ModelConfig& config, int64_t layer);

// Whether the name is that of a rotary inv_freq buffer. Older models store it; here it is ignored
// and recomputed.
bool IsStoredBuffer(absl::string_view name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_WEIGHTS_H_
