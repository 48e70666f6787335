#ifndef MOONRING_MODEL_CONFIG_CONFIG_H_
#define MOONRING_MODEL_CONFIG_CONFIG_H_

// What a model is: config.json as a validated struct (parse_config.h reads it). It says what the
// decoder does and nothing of whose it is; how a family says it in config.json, and what it calls
// its weights, is in the family's file (family.h, families/).
//
// Invariants of a parsed config: every size is positive; kv_heads divides heads; an even number of
// features turns; token ids, where there are any, are below vocab_size; there is a LayerRule for
// each of `layers`.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model/config/activation.h"
#include "model/config/rotary_rule.h"

namespace moonring::model {

struct Family;

// What a query and a key are divided by before they turn.
enum class HeadNorm { kNone, kEachHead, kAllHeads };

// How the tokens of a document see each other in a layer.
enum class MixerKind {
  kSoftmax,      // attention
  kDelta,        // a gated delta rule (DeltaRule)
  kConvolution,  // a short convolution alone (ConvolutionRule)
  kStateSpace,   // a selective state space, Mamba-2's (StateSpaceRule)
  kNone,         // they do not: the layer is its MLP alone
};

// What differs from layer to layer.
struct LayerRule {
  MixerKind mixer = MixerKind::kSoftmax;
  int64_t kv_heads = 0, head_dim = 0;  // the config's in most
  int64_t intermediate_size = 0;       // of its dense MLP
  bool keys_are_values = false;        // one map makes both, before their norms
  int64_t keys_of = -1;                // the earlier layer whose keys and values it takes
  int64_t window = 0;    // tokens that a query sees, itself among them; 0: all before it
  int rotary = 0;        // which of the config's rotaries; -1: none turns
  bool mlp = true;       // false: the layer is its mixer alone
  bool experts = false;  // its MLP is a mixture of experts
};

// A second embedding, a part of which goes into each layer (Gemma 3n, Gemma 4).
struct LayerInputRule {
  int64_t vocab_size = 0;
  int64_t width = 0;  // features for each layer; 0: there is none
};

// How the maps of a mixture's experts are stored.
enum class ExpertStorage {
  kEach,              // three matrices an expert
  kStacked,           // two tensors: [E, 2 I, D], an expert's gate above its up, and [E, D, I]
  kTransposed,        // [E, D, 2 I], gate and up by turns, and [E, I, D]
  kTransposedHalves,  // the same, an expert's gate before its up
};

inline bool IsTransposed(ExpertStorage storage) {
  return storage == ExpertStorage::kTransposed || storage == ExpertStorage::kTransposedHalves;
}

// What a router makes of its logits.
enum class RouterScore { kSoftmax, kSigmoid };

// A gated product with bounds (gated_product.h); limit 0: without.
struct ClampedGate {
  double limit = 0.0, slope = 1.0;
};

struct ExpertRule {
  int64_t count = 0;         // 0: there are none
  int64_t chosen = 0;        // of them, for each token
  int64_t intermediate = 0;  // features inside one
  int64_t shared = 0;        // features inside the expert that sees every token; 0: there is none
  int64_t width = 0;         // features that the chosen ones see, of a map; 0: the stream's
  bool normalised = false;   // the chosen ones' weights sum to 1, or to `scale`
  RouterScore score = RouterScore::kSoftmax;
  double scale = 1.0;  // of the weights
  // Experts lie in as many groups; a token chooses among those of its best groups.
  int64_t groups = 1, chosen_groups = 1;
  bool wide_router = false;  // its product is in the wide dtype
  ExpertStorage storage = ExpertStorage::kEach;
  bool bias = false;  // router and experts have biases
  ClampedGate clamped;
  bool beside_dense = false;  // a layer with experts has its dense MLP too, and adds both
};

// What a norm's result is multiplied by: of its gate's features (blocks/gated_norm.h).
enum class NormGate { kSilu, kSigmoid };

// What layers of a gated delta rule are: linear attention (blocks/delta_mixer.h).
struct DeltaRule {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;  // of a head, the latter two
  int64_t taps = 0;         // of the convolution before the rule
  double beta_scale = 1.0;  // beta is in (0, beta_scale)
  double norm_eps = 0.0;    // of the norm after the rule
  bool by_channel = false;  // each channel of a key has a decay of its own, not each head
  int64_t rank = 0;         // decay and gate are two maps each, through as many features; 0: one
  NormGate gate = NormGate::kSilu;

  int64_t keys() const { return key_heads * key_dim; }
  int64_t values() const { return value_heads * value_dim; }
  int64_t decays() const { return value_heads * (by_channel ? key_dim : 1); }
};

// What layers of a short convolution are (blocks/convolution_mixer.h).
struct ConvolutionRule {
  int64_t taps = 0;
  bool bias = false;  // of its two maps and of itself
};

// What layers of a selective state space are (blocks/state_space_mixer.h).
struct StateSpaceRule {
  int64_t heads = 0, head_dim = 0;  // of what is mixed
  int64_t groups = 0, states = 0;   // B and C: as many of as many features, of H / G heads each
  int64_t taps = 0;                 // of the convolution before
  bool filter_bias = false;         // of that
  bool map_bias = false;            // of the maps in and out
  double least_step = 0.0, most_step = std::numeric_limits<double>::infinity();
  double norm_eps = 0.0;  // of the norm after, which goes by groups

  int64_t width() const { return heads * head_dim; }
  int64_t channels() const { return width() + 2 * groups * states; }
};

// What softmax attention is whose keys and values come of a latent (blocks/latent_mixer.h).
struct LatentRule {
  int64_t key_value_rank = 0;  // of the latent; 0: keys and values are maps of the stream
  int64_t query_rank = 0;      // of the queries' own; 0: they are a map of the stream
  int64_t plain_dim = 0;       // features of a query and a key that stand
  int64_t rotary_dim = 0;      // and that turn, of one key for all heads
  int64_t value_dim = 0;       // features of a value
  double norm_eps = 1e-6;      // of the latents' norms

  int64_t key_dim() const { return plain_dim + rotary_dim; }
};

struct ModelConfig {
  const Family* family = nullptr;
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama"
  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  bool norm_adds_one = false;  // a norm multiplies by 1 + w, not by w
  HeadNorm head_norm = HeadNorm::kNone;
  bool gated_heads = false;  // the query map makes a gate of each head's result besides
  bool value_norm = false;   // a value head is divided by its root mean square
  bool tie_word_embeddings = false, qkv_bias = false, output_bias = false, mlp_bias = false;
  Activation activation = Activation::kSilu;

  double score_scale = 0.0;    // of q k; 1 / sqrt(head_dim) in most
  double score_softcap = 0.0;  // cap tanh(score / cap); 0: none
  double embedding_scale = 1.0;
  bool noise_after_scale = false;  // NEFTune's: the scale belongs to the embedding itself
  double residual_scale = 1.0;     // of what attention and MLP add to the stream
  double logit_scale = 1.0;
  double logit_softcap = 0.0;  // after the scale; 0: none

  std::vector<RotaryRule> rotaries;
  std::vector<LayerRule> layer_rules;
  ExpertRule experts;
  DeltaRule delta;              // where a layer has it
  ConvolutionRule convolution;  // where a layer has it
  StateSpaceRule state_space;   // where a layer has it
  LatentRule latent;            // of all layers of softmax attention
  LayerInputRule layer_inputs;

  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;  // none, one or several
  std::string json;             // the text as it came, but for what `WithRopeScaling` changed
  bool python_numbers = false;  // it had some that JSON does not have, here spelt (json_text.h)

  // Whether a document's angles depend on its length.
  bool rotary_depends_on_length() const {
    return std::any_of(rotaries.begin(), rotaries.end(),
                       [](const RotaryRule& rule) { return rule.depends_on_length(); });
  }

  // Features of a value head, and of what attention gives of a head.
  int64_t value_dim(const LayerRule& layer) const {
    return latent.key_value_rank > 0 ? latent.value_dim : layer.head_dim;
  }

  int64_t layers_of(MixerKind mixer) const {
    return std::count_if(layer_rules.begin(), layer_rules.end(),
                         [mixer](const LayerRule& rule) { return rule.mixer == mixer; });
  }

  // Layers with an MLP, experts among them.
  int64_t mlp_layers() const {
    return std::count_if(layer_rules.begin(), layer_rules.end(),
                         [](const LayerRule& rule) { return rule.mlp; });
  }
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_CONFIG_H_
