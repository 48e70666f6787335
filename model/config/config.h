#ifndef MOONRING_MODEL_CONFIG_CONFIG_H_
#define MOONRING_MODEL_CONFIG_CONFIG_H_

// The architecture of a model: config.json as a validated struct (parse_config.h reads it). It
// describes the decoder independently of the model family. How a family writes these properties in
// config.json, and how it names its weights, is in the family's file (family.h, families/).
//
// Invariants of a parsed config: every size is positive; kv_heads divides heads; the number of
// features with rotary embedding is even; token ids, if present, are below vocab_size; there is a
// LayerRule for each of `layers`.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config/activation.h"
#include "model/config/mixer.h"
#include "model/config/mixer_rules.h"
#include "model/config/rotary_rule.h"

namespace moonring::model {

struct Family;

// RMS normalisation of queries and keys before rotary embedding.
enum class HeadNorm { kNone, kEachHead, kAllHeads };

// Properties that differ from layer to layer.
struct LayerRule {
  const Mixer* mixer = nullptr;        // null: tokens do not interact, the layer has only an MLP
  int64_t kv_heads = 0, head_dim = 0;  // equal to the config's in most layers
  int64_t intermediate_size = 0;       // of the dense MLP
  bool keys_are_values = false;        // one map computes keys and values, before their norms
  // The earlier layer whose keys and values this layer uses; -1: it computes its own.
  int64_t keys_of = -1;
  int64_t window = 0;    // tokens that a query may attend to, including itself; 0: all before it
  int rotary = 0;        // index into ModelConfig::rotaries; -1: no rotary embedding
  bool mlp = true;       // false: the layer has only a mixer
  bool experts = false;  // the MLP is a mixture of experts

  bool keeps(MixerCache cache) const { return mixer != nullptr && mixer->cache == cache; }
  bool attends() const { return keeps(MixerCache::kKeys); }
};

// A second embedding, of which each layer receives a slice (Gemma 3n, Gemma 4).
struct LayerInputRule {
  int64_t vocab_size = 0;
  int64_t width = 0;  // features per layer; 0: the model has none
};

// How the maps of a mixture's experts are stored.
enum class ExpertStorage {
  kEach,  // three matrices per expert
  // Two tensors, with E experts, I hidden features of an expert and D features: [E, 2 I, D], with
  // an expert's gate rows before its up rows, and [E, D, I].
  kStacked,
  kTransposed,        // [E, D, 2 I], gate and up columns interleaved, and [E, I, D]
  kTransposedHalves,  // [E, D, 2 I], an expert's gate columns before its up columns, and [E, I, D]
};

inline bool IsTransposed(ExpertStorage storage) {
  return storage == ExpertStorage::kTransposed || storage == ExpertStorage::kTransposedHalves;
}

// How a router turns logits into scores.
enum class RouterScore { kSoftmax, kSigmoid };

// A gated product with clamping (gated_product.h); limit 0: no clamping.
struct ClampedGate {
  double limit = 0.0, slope = 1.0;
};

struct ExpertRule {
  int64_t count = 0;         // number of experts; 0: none
  int64_t chosen = 0;        // experts chosen per token
  int64_t intermediate = 0;  // hidden features of one expert
  // Hidden features of the shared expert, which processes every token; 0: none.
  int64_t shared = 0;
  // Number of input features of the experts if a linear map of the stream computes them; 0: the
  // experts' input is the stream itself.
  int64_t width = 0;
  bool normalised = false;  // the chosen experts' weights are normalised to sum to `scale`
  RouterScore score = RouterScore::kSoftmax;
  double scale = 1.0;  // factor of the chosen experts' weights
  // Experts are divided into `groups` groups; a token chooses experts only from its best
  // `chosen_groups`.
  int64_t groups = 1, chosen_groups = 1;
  bool wide_router = false;  // the router's matrix product is in the wide dtype
  ExpertStorage storage = ExpertStorage::kEach;
  bool bias = false;  // router and experts have biases
  ClampedGate clamped;
  bool beside_dense = false;  // layers with experts also have a dense MLP; both outputs are added
};

struct ModelConfig : MixerRules {
  const Family* family = nullptr;
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama"
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  bool norm_adds_one = false;  // a norm multiplies by 1 + w, not by w
  HeadNorm head_norm = HeadNorm::kNone;
  bool gated_heads = false;  // the query map also computes a gate of each head's output
  bool value_norm = false;   // a value head is divided by its root mean square
  bool tie_word_embeddings = false, qkv_bias = false, output_bias = false, mlp_bias = false;
  Activation activation = Activation::kSilu;

  double score_scale = 0.0;    // factor of q k; 1 / sqrt(head_dim) in most families
  double score_softcap = 0.0;  // cap tanh(score / cap); 0: none
  double embedding_scale = 1.0;
  // true: NEFTune's noise is added after the embedding is scaled, because the family scales inside
  // its embedding module.
  bool noise_after_scale = false;
  double residual_scale = 1.0;  // factor of the outputs of attention and MLP
  double logit_scale = 1.0;
  double logit_softcap = 0.0;  // applied after the scale; 0: none

  std::vector<RotaryRule> rotaries;
  std::vector<LayerRule> layer_rules;
  ExpertRule experts;
  LayerInputRule layer_inputs;

  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;  // none, one or several
  // The text of config.json, with the changes made by ScaleRope, GrowVocabulary and EndWith.
  std::string json;
  // true: config.json had numbers that only Python's parser accepts (NaN, Infinity). In `json` they
  // are converted to valid JSON (json_text.h).
  bool python_numbers = false;

  // Whether the rotary angles of a document depend on its length.
  bool rotary_depends_on_length() const {
    return std::any_of(rotaries.begin(), rotaries.end(),
                       [](const RotaryRule& rule) { return rule.depends_on_length(); });
  }

  // Number of features of a value head, and of a head's output.
  int64_t value_dim(const LayerRule& layer) const {
    return latent.key_value_rank > 0 ? latent.value_dim : layer.head_dim;
  }

  // Number of layers with this mixer; null: without any.
  int64_t layers_of(const Mixer* mixer) const {
    return std::count_if(layer_rules.begin(), layer_rules.end(),
                         [mixer](const LayerRule& rule) { return rule.mixer == mixer; });
  }

  // Number of layers whose mixer keeps this in decoding.
  int64_t layers_keeping(MixerCache cache) const {
    return std::count_if(layer_rules.begin(), layer_rules.end(),
                         [cache](const LayerRule& rule) { return rule.keeps(cache); });
  }

  // Number of layers with an MLP, dense or of experts.
  int64_t mlp_layers() const {
    return std::count_if(layer_rules.begin(), layer_rules.end(),
                         [](const LayerRule& rule) { return rule.mlp; });
  }
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_CONFIG_H_
