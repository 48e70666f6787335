#ifndef MOONRING_MODEL_CONFIG_FAMILY_H_
#define MOONRING_MODEL_CONFIG_FAMILY_H_

// What a family of decoders adds to the shared layers: what it calls its weights, and how its
// config.json says what it does. One file a family in families/; families/README.md says how to add
// one.

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "model/config/block_weights.h"
#include "model/config/config.h"
#include "model/files/json_text.h"

namespace moonring::model {

// How the rows of a map for queries, keys and values at once lie.
enum class QkvRows {
  kStacked,  // all queries, all keys, all values
  kGrouped,  // for each kv head its queries, its key, its value
};

// Modules by their published (Hugging Face) names; a weight's name adds ".weight" or ".bias". An
// empty name: the family has no such thing.
struct WeightNames {
  std::string embedding = "model.embed_tokens", norm = "model.norm", head = "lm_head";
  std::string layer = "model.layers.%d.";  // before each of the names below
  // Of a second embedding (LayerInputRule): the table, the map of the first one's rows, its norm.
  std::string layer_table, layer_map, layer_map_norm;
  std::array<std::string, kBlockWeights> in_block;
  // What is called otherwise in layers of a gated delta rule; "": is not there.
  std::vector<std::pair<BlockWeight, std::string>> in_delta_layer;
  std::string expert;  // "mlp.experts.%d.": before each of the three below
  // Where both these and kExpertsGateUp are named, the files say which they have.
  std::array<std::string, kExpertWeights> in_expert;
};

// How a GGUF file has the family.
struct GgufFacts {
  std::string architecture;             // general.architecture; empty: there are no such files
  bool interleaved_heads = false;       // rows of q and k lie in another order (gguf_model.h)
  bool norms_have_one = false;          // w there is 1 + w here
  bool norm_follows_attention = false;  // the norm before the MLP is called by what it follows
  bool tiled_values = false;  // value heads of a delta rule lie in another order (gguf_model.h)
  std::string norm = "output_norm";  // after the last layer
};

// How files call a model, or a composite model's text half: what stands before ".layers.0" and so
// on, and the head's module.
struct StoredNames {
  std::string text, head;
};

// Keys of a mixture of experts in config.json (ReadGroupedExperts).
struct ExpertKeys {
  const char *count = "n_routed_experts", *chosen = "num_experts_per_tok",
             *shared = "n_shared_experts", *groups = "n_group", *normalised = "norm_topk_prob";
};

// A number of config.json, and what it is where that lacks it; "": always that.
struct FreshNumber {
  const char* key = "";
  double otherwise = 0.0;
};

// How what is special of a family begins where its weights are made afresh
// (checkpoint/fresh_weights.h).
struct FreshRule {
  // Of a delta rule: a decay's rate A is uniform between the two.
  FreshNumber least_rate{"", 0.01}, most_rate{"", 16.0};
  // Of a decay's shift: its softplus is log-uniform between the first two, and not below the third;
  // false: the shift is 1.
  bool draws_step = false;
  FreshNumber least_step{"", 1e-3}, most_step{"", 0.1}, step_floor{"", 1e-4};
  // A state space's map out is uniform, of deviation 1 / sqrt(3 inputs layers), unless
  // rescale_prenorm_residual is false.
  bool scales_output = false;
};

struct Family {
  std::string title;             // for people: "Llama 2, 3 and what is built like it"
  std::string architecture;      // "LlamaForCausalLM"
  std::string model_type;        // "llama"
  std::string other_model_type;  // of files that call themselves otherwise; "": none do

  // What Transformers takes where config.json does not say.
  int64_t kv_heads = 0;  // 0: as many as query heads
  int64_t head_dim = 0;  // 0: hidden_size / heads
  double rms_norm_eps = 1e-6, rope_theta = 10000.0, partial_rotary_factor = 1.0;
  int64_t max_position_embeddings = 2048,
          original_max_position_embeddings = 0;  // the latter longrope's; 0: the former
  bool tied = false;
  int64_t pad_token_id = -1;  // -1: none
  bool pads_learn = false;    // its embedding knows no pad: lookups of it take a gradient too

  // Its key of the norms' eps; and one that stands above intermediate_size where a file has it.
  const char *eps_key = "rms_norm_eps", *intermediate_key = "intermediate_size";
  const char* context_key = "max_position_embeddings";
  // Keys with an item or a letter for each layer, the first that a file has before the others; they
  // say how many layers there are. Empty: num_hidden_layers does.
  std::vector<const char*> layer_keys;
  ExpertKeys expert_keys;
  bool newer = false;  // Transformers 4 does not have it: config.json is as 5 writes it

  bool scales_rope = true;         // Transformers' config has rope_scaling
  bool scaled_by_default = false;  // where config.json has no rope_scaling, not even null
  // The router is a linear module, which adapters may go on; false: a parameter of its own.
  bool linear_router = true;
  // Its layer_types in Transformers 5 and in 4, where they differ. Both read 4's, which are saved.
  std::vector<std::pair<std::string, std::string>> older_layer_types;
  // Parts of names as published, and as Transformers 5.23 saves them
  // (checkpoint/resaved_weights.h).
  std::vector<std::pair<std::string, std::string>> resaved_modules;
  bool mxfp4 = false;  // its files may have experts in four bits (files/mxfp4.h)

  WeightNames names;
  QkvRows qkv_rows = QkvRows::kStacked;
  GgufFacts gguf;

  // How its files may call their tensors, the names above first; empty: in these alone. What is
  // saved has those that came (checkpoint/renamed_weights.h).
  std::vector<StoredNames> stored_names;

  // Of a composite model, whose text half is what is trained (families/composites.cc): the
  // model_type of config.json's text_config, and what that may leave out (JSON; empty: nothing).
  // Empty: config.json is the text model's itself.
  std::string text_model_type, text_defaults;
  bool composite() const { return !text_model_type.empty(); }

  // Sets what the family's own keys say. Called after the sizes, with every layer's rule at its
  // default and one rotary, read by the shared keys. May be null.
  absl::Status (*read)(const JsonFields& fields, ModelConfig& config) = nullptr;

  FreshRule fresh;
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_CONFIG_FAMILY_H_
