#ifndef MOONRING_MODEL_CONFIG_FAMILY_H_
#define MOONRING_MODEL_CONFIG_FAMILY_H_

// The description of a family of decoders: the names of its weights, and how its config.json is
// read. All families share the code of the layers. There is one file per family in families/;
// families/README.md says how to add one.

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "model/config/block_weights.h"
#include "model/config/config.h"
#include "model/files/json_text.h"

namespace moonring::model {

// Order of the rows in a fused map for queries, keys and values.
enum class QkvRows {
  kStacked,  // all queries, all keys, all values
  kGrouped,  // for each kv head in turn: its queries, its key, its value
};

// Hugging Face names of the modules; a weight's name adds ".weight" or ".bias". An empty name: the
// family does not have the module.
struct WeightNames {
  std::string embedding = "model.embed_tokens", norm = "model.norm", head = "lm_head";
  std::string layer = "model.layers.%d.";  // prefix of the names below
  // A second embedding (LayerInputRule): its table, the linear map of the first embedding's rows,
  // and the norm of that map's result.
  std::string layer_table, layer_map, layer_map_norm;
  std::array<std::string, kBlockWeights> in_block;
  // Names that are different in layers with this mixer; "": such a layer lacks the weight.
  std::map<const Mixer*, std::vector<std::pair<BlockWeight, std::string>>> in_layers_of;
  std::string expert;  // "mlp.experts.%d.": prefix of the three names below
  // Names of the matrices of one expert. A family that also names kExpertsGateUp has both forms;
  // the files show which one a model uses.
  std::array<std::string, kExpertWeights> in_expert;
};

// How GGUF files represent the family.
struct GgufFacts {
  std::string architecture;        // general.architecture; empty: there are no GGUF files
  bool interleaved_heads = false;  // rows of q and k are in another order (gguf_layout.h)
  bool norms_have_one = false;     // the file stores 1 + w where this project stores w
  // The norm before the MLP is named after the attention before it.
  bool norm_follows_attention = false;
  bool tiled_values = false;         // value heads of a delta rule are reordered (gguf_layout.h)
  std::string norm = "output_norm";  // the norm after the last layer
};

// A naming scheme of weights in files: the prefix before ".layers.0" (`text`), and the head's
// module name (`head`).
struct StoredNames {
  std::string text, head;
};

// Names of the config.json keys of a mixture of experts (ReadGroupedExperts).
struct ExpertKeys {
  const char *count = "n_routed_experts", *chosen = "num_experts_per_tok",
             *shared = "n_shared_experts", *groups = "n_group", *normalised = "norm_topk_prob";
};

// A number from config.json, and its default. If the key is "", the default is always used.
struct FreshNumber {
  const char* key = "";
  double otherwise = 0.0;
};

// Initial values of a family's special parameters in a randomly initialised model
// (checkpoint/fresh_weights.h).
struct FreshRule {
  // Delta rule: the initial rate A of the decay is uniform between least_rate and most_rate.
  FreshNumber least_rate{"", 0.01}, most_rate{"", 16.0};
  // The initial shift of a decay. If draws_step is true, softplus(shift) is log-uniform between
  // least_step and most_step, and at least step_floor; otherwise the shift is 1.
  bool draws_step = false;
  FreshNumber least_step{"", 1e-3}, most_step{"", 0.1}, step_floor{"", 1e-4};
  // A state space's output map is uniform with standard deviation 1 / sqrt(3 inputs layers), unless
  // rescale_prenorm_residual is false.
  bool scales_output = false;
};

struct Family {
  std::string title;             // description for people
  std::string architecture;      // "LlamaForCausalLM"
  std::string model_type;        // "llama"
  std::string other_model_type;  // another model_type that files may use; "": none

  // Transformers' defaults for keys that config.json lacks.
  int64_t kv_heads = 0;  // 0: as many as query heads
  int64_t head_dim = 0;  // 0: hidden_size / heads
  double rms_norm_eps = 1e-6, rope_theta = 10000.0, partial_rotary_factor = 1.0;
  // original_max_position_embeddings is used by longrope; 0: equal to max_position_embeddings.
  int64_t max_position_embeddings = 2048, original_max_position_embeddings = 0;
  bool tied = false;
  int64_t pad_token_id = -1;  // -1: none
  // False: lookups of the pad token get no gradient, as with nn.Embedding's padding_idx.
  bool pads_learn = false;

  // The config.json keys of the norms' eps, of the MLP's size ("intermediate_size" is read if a
  // file lacks this key), and of the context length.
  const char *eps_key = "rms_norm_eps", *intermediate_key = "intermediate_size";
  const char* context_key = "max_position_embeddings";
  // Keys whose value is a list or string with one item or letter per layer, in order of precedence;
  // its length is the number of layers. Empty: num_hidden_layers is the number of layers.
  std::vector<const char*> layer_keys;
  ExpertKeys expert_keys;
  // true: only Transformers 5 has the family, so config.json is in the form of Transformers 5.
  bool newer = false;

  bool scales_rope = true;  // Transformers' config has rope_scaling
  // Whether rope is scaled if config.json has no rope_scaling, not even null.
  bool scaled_by_default = false;
  // Whether the router is a linear module, which may have adapters; false: it is a plain parameter.
  bool linear_router = true;
  // Pairs of names in layer_types that differ: the one of Transformers 5, then that of Transformers
  // 4. Models are saved with the names of Transformers 4, because both versions read those.
  std::vector<std::pair<std::string, std::string>> older_layer_types;
  // Pairs of substrings of weight names: as originally published, and as Transformers 5.23 saves
  // them (checkpoint/resaved_weights.h).
  std::vector<std::pair<std::string, std::string>> resaved_modules;
  bool mxfp4 = false;  // files may store experts in four bits (files/mxfp4.h)

  WeightNames names;
  QkvRows qkv_rows = QkvRows::kStacked;
  GgufFacts gguf;

  // Naming schemes that files may use; the first one is that of WeightNames. Empty: files use only
  // WeightNames. A saved model keeps the scheme of its original files
  // (checkpoint/renamed_weights.h).
  std::vector<StoredNames> stored_names;

  // For a composite (multimodal) model, of which only the text model is trained
  // (families/composites.cc): the model_type in config.json's text_config, and defaults for keys
  // that text_config may omit (a JSON object; empty: none). If text_model_type is empty, the model
  // is not composite and config.json itself describes the text model.
  std::string text_model_type, text_defaults;
  bool composite() const { return !text_model_type.empty(); }

  // Reads the keys that only this family has. Called after the keys that all families share have
  // been read: `config` then has its sizes, one RotaryRule, and a default LayerRule for every
  // layer. May be null.
  absl::Status (*read)(const JsonFields& fields, ModelConfig& config) = nullptr;

  FreshRule fresh;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_FAMILY_H_
