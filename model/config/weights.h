#ifndef MOONRING_MODEL_CONFIG_WEIGHTS_H_
#define MOONRING_MODEL_CONFIG_WEIGHTS_H_

// The weights that a model of a given config consists of: their published (Hugging Face) names and
// shapes.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/config/block_weights.h"
#include "model/config/config.h"
#include "model/files/weight_shape.h"

namespace moonring::model {

// From the embedding to the head, in the order in which a forward pass meets them. No head where it
// is tied to the embedding.
std::vector<WeightShape> WantedWeights(const ModelConfig& config);

// "model.layers.3", as the family calls it.
std::string LayerName(const ModelConfig& config, int64_t layer);

// "model.embed_tokens.weight" and so on, whatever the family calls them.
std::string EmbeddingName(const ModelConfig& config);
std::string FinalNormName(const ModelConfig& config);
std::string HeadName(const ModelConfig& config);
// Of a second embedding (LayerInputRule), where there is one.
std::string LayerTableName(const ModelConfig& config);
std::string LayerMapName(const ModelConfig& config);
std::string LayerMapNormName(const ModelConfig& config);

// The last parts of the names of the modules that have a row for each token: the embedding and the
// head, tied or not.
std::vector<std::string> VocabularyModules(const ModelConfig& config);

// The weight at a place (block_weights.h, ExpertWeightPlace) of a layer; "" where the layer has
// none.
std::string WeightName(const ModelConfig& config, int64_t layer, int place);

// How many places a layer's list of weights has.
int WeightPlaces(const ModelConfig& config, int64_t layer);

// Buffers that older writers stored beside the weights and that are computed anew: rotary inv_freq.
bool IsStoredBuffer(absl::string_view name);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_WEIGHTS_H_
