// Lua bindings for a model's files on disk, before weights are read.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lua/binding/class.h"
#include "lua/binding/set_field.h"
#include "lua/binding/stack.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/gguf_options.h"
#include "model/adapter.h"
#include "model/base_packing.h"
#include "model/checkpoint/checkpoint.h"
#include "model/config/family.h"
#include "model/config/inventory.h"
#include "model/config/stored_dtype.h"
#include "model/config/weights.h"
#include "model/expert_parts.h"
#include "model/mixers/mixers.h"

namespace moonring::lua {
namespace {

std::optional<std::string> Companion(model::Checkpoint& checkpoint, std::string name) {
  const auto found = checkpoint.companions().find(name);
  return found == checkpoint.companions().end() ? std::nullopt
                                                : std::optional<std::string>(found->second);
}

// Sets the fields that count the layers of each mixer and those of its sizes; and `mixers`, a list
// of { text, layers, work } of the mixers that the model has.
void SetMixerFields(lua_State* L, const model::ModelConfig& config) {
  std::map<std::string, int64_t> layers;
  for (const model::Mixer* mixer : model::Mixers()) {
    layers[mixer->layers_fact] += config.layers_of(mixer);
    if (mixer->sizes == nullptr) continue;
    for (const model::MixerSize& size : mixer->sizes(config)) {
      if (*size.fact == '\0') continue;
      std::visit([&](auto value) { SetField(L, size.fact, value); }, size.value);
    }
  }
  for (const auto& [fact, count] : layers) SetField(L, fact.c_str(), count);
  lua_newtable(L);
  int index = 0;
  for (const model::Mixer* mixer : model::Mixers()) {
    if (config.layers_of(mixer) == 0) continue;
    lua_newtable(L);
    SetField(L, "text", mixer->describe(config));
    SetField(L, "layers", config.layers_of(mixer));
    if (mixer->work != nullptr) {
      const model::MixerWork work = mixer->work(config);
      lua_newtable(L);
      SetField(L, "layers", config.layers_of(mixer));
      SetField(L, "key_heads", work.key_heads);
      SetField(L, "value_heads", work.value_heads);
      SetField(L, "key_dim", work.key_dim);
      SetField(L, "value_dim", work.value_dim);
      SetField(L, "channels", work.channels);
      SetField(L, "taps", work.taps);
      SetField(L, "reordered", work.reordered);
      lua_setfield(L, -2, "work");
    }
    lua_rawseti(L, -2, ++index);
  }
  lua_setfield(L, -2, "mixers");
}

// Pushes a table of the model's sizes and architecture switches, by name.
Pushed Facts(lua_State* L, model::Checkpoint& checkpoint) {
  const model::ModelConfig& config = checkpoint.config();
  int64_t sliding = 0, window = 0;
  for (const model::LayerRule& layer : config.layer_rules) {
    sliding += layer.window > 0 ? 1 : 0;
    window = std::max(window, layer.window);
  }
  lua_newtable(L);
  SetField(L, "architecture", config.architecture);
  SetField(L, "family", config.family->title);
  SetField(L, "layers", config.layers);
  SetField(L, "hidden_size", config.hidden_size);
  SetField(L, "intermediate_size", config.intermediate_size);
  SetField(L, "heads", config.heads);
  SetField(L, "kv_heads", config.kv_heads);
  SetField(L, "head_dim", config.head_dim);
  SetField(L, "attention_value_dim", config.value_dim(config.layer_rules[0]));
  SetField(L, "vocab_size", config.vocab_size);
  SetField(L, "max_position_embeddings", config.max_position_embeddings);
  SetField(L, "experts", config.experts.count);
  SetField(L, "experts_chosen", config.experts.chosen);
  const model::ExpertSize experts = model::SizeOfExperts(config);
  SetField(L, "expert_layers", experts.layers);
  SetField(L, "expert_parameters", experts.parameters);
  SetField(L, "experts_stacked", config.experts.storage != model::ExpertStorage::kEach);
  SetField(L, "expert_intermediate_size", config.experts.intermediate);
  SetField(L, "shared_expert_size", config.experts.shared);
  SetMixerFields(L, config);
  SetField(L, "dense_beside_experts", config.experts.beside_dense);
  SetField(L, "mlp_layers", config.mlp_layers());
  SetField(L, "unmixed_layers", config.layers_of(nullptr));
  const auto& names = config.family->names.in_block;
  SetField(L, "gated_mlp",
           !names[model::kUp].empty() || !names[model::kGateUp].empty() ||
               !names[model::kExpertsGateUp].empty());
  SetField(L, "expert_width", config.experts.width);
  SetField(L, "turning_layers",
           std::count_if(config.layer_rules.begin(), config.layer_rules.end(),
                         [](const model::LayerRule& layer) { return layer.rotary >= 0; }));
  SetField(L, "rotary_depends_on_length", config.rotary_depends_on_length());
  SetField(L, "sliding_layers", sliding);
  SetField(L, "window", window);
  SetField(L, "softcap", config.score_softcap);
  SetField(L, "logit_softcap", config.logit_softcap);
  SetField(L, "tied", config.tie_word_embeddings);
  SetField(L, "dtypes", checkpoint.stored_dtypes());
  SetField(L, "bytes", static_cast<double>(checkpoint.file_bytes()));
  return {1};
}

// Pushes the parameter counts of the kinds of modules: a list of { name, parameters, active }.
Pushed Parts(lua_State* L, model::Checkpoint& checkpoint) {
  lua_newtable(L);
  int index = 0;
  for (const model::Part& part : model::PartsOf(checkpoint.config())) {
    lua_newtable(L);
    SetField(L, "name", part.name);
    SetField(L, "parameters", part.parameters);
    SetField(L, "active", part.active);
    lua_rawseti(L, -2, ++index);
  }
  return {1};
}

// Pushes the shapes of all weights: a list of { name, shape }.
Pushed WeightShapes(lua_State* L, model::Checkpoint& checkpoint) {
  lua_newtable(L);
  int index = 0;
  for (const model::WeightShape& weight : model::WantedWeights(checkpoint.config())) {
    lua_newtable(L);
    SetField(L, "name", weight.name);
    SetField(L, "shape", weight.shape);
    lua_rawseti(L, -2, ++index);
  }
  return {1};
}

// Pushes the linear layers that can get an adapter: a list of { module, rows, columns }.
Pushed LinearMaps(lua_State* L, model::Checkpoint& checkpoint) {
  const model::AdapterPlan plan = base::ValueOrThrow(model::PlanAdapter(checkpoint.config(), {}));
  lua_newtable(L);
  int index = 0;
  for (const model::AdapterPlan::Map& map : plan.maps) {
    lua_newtable(L);
    SetField(L, "module", map.module);
    SetField(L, "rows", map.out);
    SetField(L, "columns", map.in);
    lua_rawseti(L, -2, ++index);
  }
  return {1};
}

// Pushes the size of the matrices of a frozen base, quantized in the given code: { numbers, bytes,
// layer_numbers, layer_bytes }.
Pushed PackedSizes(lua_State* L, model::Checkpoint& checkpoint, std::string code) {
  const model::PackedSize size = base::ValueOrThrow(
      model::SizeOfPacked(checkpoint, base::ValueOrThrow(model::PackingNamed(code))));
  lua_newtable(L);
  SetField(L, "numbers", size.numbers);
  SetField(L, "bytes", size.bytes);
  SetField(L, "layer_numbers", size.layer_numbers);
  SetField(L, "layer_bytes", size.layer_bytes);
  return {1};
}

// Checks whether the model can be written as a .gguf file. Returns a line for each part of the
// model that the file will not contain.
std::vector<std::string> CheckGguf(model::Checkpoint& checkpoint, std::string path,
                                   Options options) {
  const model::GgufOptions gguf = GgufOptionsOf(options, checkpoint);
  options.Finish();
  return base::ValueOrThrow(model::CheckGguf(path, checkpoint.config(), gguf));
}

}  // namespace

void RegisterCheckpoint(lua_State* L) {
  using model::Checkpoint;
  Class<Checkpoint>::Register(
      L, "Checkpoint",
      {
          {"path", Bind<[](Checkpoint& checkpoint) { return checkpoint.path(); }>},
          {"name", Bind<[](Checkpoint& checkpoint) { return checkpoint.name(); }>},
          {"set_name", Bind<[](Checkpoint& checkpoint, std::string name) {
             checkpoint.set_name(std::move(name));
           }>},
          {"files", Bind<[](Checkpoint& checkpoint) { return checkpoint.files(); }>},
          {"config_json",
           Bind<[](Checkpoint& checkpoint) { return std::string(checkpoint.config().json); }>},
          {"companion", Bind<&Companion>},
          {"facts", Bind<&Facts>},
          {"parts", Bind<&Parts>},
          {"linear_maps", Bind<&LinearMaps>},
          {"weight_shapes", Bind<&WeightShapes>},
          {"packed_sizes", Bind<&PackedSizes>},
          {"check_gguf", Bind<&CheckGguf>},
          {"extra_weights", Bind<[](Checkpoint& checkpoint) { return checkpoint.extra_names(); }>},
          {"carried_weights", Bind<[](Checkpoint& checkpoint) {
             std::vector<std::string> names;
             for (const model::TensorToWrite& tensor : checkpoint.carried().tensors)
               names.push_back(tensor.name);
             return names;
           }>},
          {"eos_token_ids",
           Bind<[](Checkpoint& checkpoint) { return checkpoint.config().eos_token_ids; }>},
          {"max_position_embeddings", Bind<[](Checkpoint& checkpoint) {
             return checkpoint.config().max_position_embeddings;
           }>},
          {"rope", Bind<[](Checkpoint& checkpoint) {
             return model::DescribeRope(checkpoint.config().rotaries[0]);
           }>},
          {"rope_kind", Bind<[](Checkpoint& checkpoint) {
             return std::string(model::RopeName(checkpoint.config().rotaries[0].kind));
           }>},
          {"scale_rope", Bind<[](Checkpoint& checkpoint, std::string kind, int64_t length) {
             return checkpoint.ScaleRope(kind, length);
           }>},
          {"dtype", Bind<[](Checkpoint& checkpoint) {
             return model::StoredDtype(checkpoint.config().json);
           }>},
          {"grow_vocabulary", Bind<[](Checkpoint& checkpoint, int64_t tokens, uint64_t seed) {
             checkpoint.GrowVocabulary(tokens, seed);
           }>},
          {"vocabulary_modules", Bind<[](Checkpoint& checkpoint) {
             return model::VocabularyModules(checkpoint.config());
           }>},
          {"replace_companions",
           Bind<[](Checkpoint& checkpoint, std::map<std::string, std::string> files) {
             checkpoint.ReplaceCompanions(files);
           }>},
          {"end_with",
           Bind<[](Checkpoint& checkpoint, int64_t eos) { return checkpoint.EndWith(eos); }>},
          {"vocab_size",
           Bind<[](Checkpoint& checkpoint) { return checkpoint.config().vocab_size; }>},
          {"__tostring", Bind<[](Checkpoint& checkpoint) {
             return absl::StrCat("Checkpoint ", checkpoint.config().architecture, " at ",
                                 checkpoint.path());
           }>},
      });
}

}  // namespace moonring::lua
