#ifndef MOONRING_MODEL_CONFIG_MIXER_H_
#define MOONRING_MODEL_CONFIG_MIXER_H_

// The interface of a mixer, the step of a layer in which the tokens of a document interact: softmax
// attention, a gated delta rule, a state space model, a short convolution. There is one constant of
// type Mixer per kind, in a file of model/mixers; mixers.h there has the table. A layer points to
// its mixer (LayerRule), and all other code asks the mixer instead of comparing kinds.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "model/config/block_weights.h"

namespace at {
class Tensor;
}
namespace moonring::attention {
class KeptAttention;
class PlannedAttention;
}  // namespace moonring::attention

namespace moonring::model {

class BlockMaps;
struct BlockRows;
struct BlockRule;
struct LayerRule;
struct MixerOutput;
struct ModelConfig;

// What decoding keeps of a document's earlier tokens, for each layer.
enum class MixerCache {
  kKeys,   // keys and values of every token (kv_cache.h): the mixer calls PlannedAttention
  kState,  // a state of fixed size (mixers/cache/mixing_cache.h): it calls PlannedMixing
};

// One number of a mixer's configuration.
struct MixerSize {
  const char* fact;  // its field in Checkpoint:facts() of the Lua API; "": it has none
  const char* key;   // its name in messages: the key of config.json, or a description
  std::variant<int64_t, double, bool> value;
};

// What a layer computes through PlannedMixing. Memory, traffic and the size of the state in
// decoding follow from it.
struct MixerWork {
  // Of the recurrence (mixers::DeltaCall); 0: the layer is a convolution alone.
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t channels = 0, taps = 0;  // of the convolution; taps 0: there is none
  // Whether the mixed tensors also exist as copies in the order that the recurrence needs.
  bool reordered = false;

  // The numbers that decoding keeps for one document and layer.
  int64_t state() const {
    return (taps > 0 ? (taps - 1) * channels : 0) + value_heads * key_dim * value_dim;
  }
};

// A weight's name in GGUF files, after "blk.0.".
struct MixerGgufName {
  BlockWeight weight;
  const char* name;
};

struct Mixer {
  const char* name;         // for people, and the mixer's part in Checkpoint:parts()
  const char* layers_fact;  // the field of Checkpoint:facts() that counts the layers
  const char* layer_type;   // its name in layer_types of config.json, in Transformers 5
  MixerCache cache;
  BlockWeight output;  // Wo, the map from the mixer's output to the residual stream

  // Shape of a weight of the mixer (BlockPart::kOfMixer) in this layer; empty: the layer lacks the
  // weight. `place` is a BlockWeight that is not a bias.
  std::vector<int64_t> (*shape)(const ModelConfig& config, const LayerRule& layer, int place);
  // Whether the map or filter has a bias. Null: none has.
  bool (*biased)(const ModelConfig& config, int place) = nullptr;

  // Computes the input of the map Wo, [T, C] in the matmul dtype, from hidden_TD, rows of the
  // residual stream. Differentiable; T may be 0. `kept` receives attention's result for reuse in
  // recomputation; null: it is not kept. Collective; exceptions of attention and mixing propagate.
  MixerOutput (*run)(const BlockRule& rule, const BlockMaps& maps, const at::Tensor& hidden_TD,
                     const BlockRows& rows, attention::PlannedAttention& attention,
                     attention::KeptAttention* kept);

  // The numbers that a model with the mixer has in its config. Null: none but those of every model.
  std::vector<MixerSize> (*sizes)(const ModelConfig& config) = nullptr;
  // Null with MixerCache::kKeys.
  MixerWork (*work)(const ModelConfig& config) = nullptr;
  // The mixer with its sizes, for people: "a state space (8 heads of 6, states 2 x 5)".
  std::string (*describe)(const ModelConfig& config);
  absl::Span<const MixerGgufName> gguf = {};  // empty: GGUF files with it are not supported
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_MIXER_H_
