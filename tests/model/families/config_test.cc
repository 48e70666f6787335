#include "model/families/parse_config.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/mixers/mixers.h"
#include "nlohmann/json.hpp"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::ReadAll;
using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

// The config of SmolLM2-135M as Transformers writes it.
json SmolLM2() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", )"
                     R"("attention_bias": false, "hidden_act": "silu",
      "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, )"
                     R"("num_attention_heads": 9, "num_key_value_heads": 3,
      "head_dim": 64, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, )"
                     R"("rope_theta": 100000.0, "rope_scaling": null,
      "tie_word_embeddings": true, "vocab_size": 49152, "bos_token_id": 1, "eos_token_id": 2, )"
                     R"("pad_token_id": 2})");
}

absl::StatusOr<ModelConfig> With(const std::string& key, const json& value) {
  json config = SmolLM2();
  config[key] = value;
  return ParseConfig(config.dump(), "m/config.json");
}

absl::StatusOr<ModelConfig> Without(const std::string& key) {
  json config = SmolLM2();
  config.erase(key);
  return ParseConfig(config.dump(), "m/config.json");
}

TEST(ConfigTest, ReadsEveryField) {
  const std::string text = SmolLM2().dump();
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, ParseConfig(text, "m/config.json"));
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.layers, 30);
  EXPECT_EQ(config.heads, 9);
  EXPECT_EQ(config.kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.rotaries[0].theta, 1e5);
  EXPECT_EQ(config.max_position_embeddings, 8192);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.output_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2));
  EXPECT_EQ(config.json, text);
}

TEST(ConfigTest, TakesTransformersDefaultsWhereKeysAreMissing) {
  EXPECT_EQ(Without("num_key_value_heads")->kv_heads, 9);
  EXPECT_EQ(Without("head_dim")->head_dim, 64);
  EXPECT_EQ(With("head_dim", nullptr)->head_dim, 64);
  EXPECT_EQ(Without("rope_theta")->rotaries[0].theta, 10000.0);
  EXPECT_EQ(Without("rms_norm_eps")->rms_norm_eps, 1e-6);
  EXPECT_FALSE(Without("tie_word_embeddings")->tie_word_embeddings);
  EXPECT_EQ(Without("architectures")->architecture, "LlamaForCausalLM");
  EXPECT_EQ(Without("model_type")->model_type, "llama");
  EXPECT_FALSE(Without("bos_token_id")->bos_token_id.has_value());
  EXPECT_THAT(Without("eos_token_id")->eos_token_ids, IsEmpty());
}

TEST(ConfigTest, ReadsTheShapeOfTransformers5) {
  json config = SmolLM2();
  config.erase("rope_theta");
  config.erase("rope_scaling");
  config["rope_parameters"] = {{"rope_theta", 130000.0}, {"rope_type", "default"}};
  EXPECT_EQ(ParseConfig(config.dump(), "c")->rotaries[0].theta, 130000.0);
  config["rope_theta"] = 130000.0;
  EXPECT_EQ(ParseConfig(config.dump(), "c")->rotaries[0].theta, 130000.0);
  config["rope_theta"] = 10000.0;
  EXPECT_THAT(
      ParseConfig(config.dump(), "c"),
      StatusIs(
          kInvalid,
          AllOf(HasSubstr("rope_theta is 10000 at the top level but 130000 in rope_parameters"))));
}

TEST(ConfigTest, TakesSeveralEndTokens) {
  EXPECT_THAT(With("eos_token_id", {7, 9})->eos_token_ids, ElementsAre(7, 9));
  EXPECT_THAT(With("eos_token_id", -1)->eos_token_ids, IsEmpty());
  EXPECT_FALSE(With("pad_token_id", -1)->pad_token_id.has_value());
  EXPECT_FALSE(With("pad_token_id", 49152)->pad_token_id.has_value());
}

TEST(ConfigTest, AllowsHeadsThatAreNotHiddenOverHeads) {
  EXPECT_EQ(With("head_dim", 128)->head_dim, 128);
}

// Expects an error with this status: one line that begins with the file and contains `words`.
void ExpectRefused(const absl::StatusOr<ModelConfig>& config, absl::StatusCode code,
                   const std::string& words) {
  EXPECT_THAT(config, StatusIs(code, AllOf(StartsWith("m/config.json: "), HasSubstr(words),
                                           Not(HasSubstr("\n")))));
}

// Parses the config of a small model of a family, with `changes` merged in; null removes a key.
absl::StatusOr<ModelConfig> Of(const std::string& architecture, const std::string& model_type,
                               json changes = json::object()) {
  json config = SmolLM2();
  config["architectures"] = {architecture};
  config["model_type"] = model_type;
  config["num_hidden_layers"] = 4;
  config.merge_patch(changes);
  return ParseConfig(config.dump(), "m/config.json");
}

// Kind and numbers of each rotary scaling are read, in both layouts of config.json and under both
// names of its key.
TEST(ConfigTest, ReadsEveryRopeScaling) {
  const auto both = [](json scaling, const std::function<void(const RotaryRule&)>& check,
                       const json& changes = json::object()) {
    json older = SmolLM2();
    older.merge_patch(changes);
    older["rope_scaling"] = scaling;
    json renamed = older;
    renamed["rope_scaling"]["type"] = scaling["rope_type"];
    renamed["rope_scaling"].erase("rope_type");
    json newer = older;
    newer.erase("rope_scaling");
    newer.erase("rope_theta");
    newer["rope_parameters"] = scaling;
    newer["rope_parameters"]["rope_theta"] = 100000.0;
    for (const json& config : {older, renamed, newer}) {
      ASSERT_OK_AND_ASSIGN(const ModelConfig parsed, ParseConfig(config.dump(), "m/config.json"));
      ASSERT_EQ(parsed.rotaries.size(), 1);
      EXPECT_EQ(parsed.rotaries[0].theta, 1e5);
      check(parsed.rotaries[0]);
    }
  };
  both({{"rope_type", "default"}},
       [](const RotaryRule& rule) { EXPECT_EQ(rule.kind, RopeKind::kDefault); });
  both({{"rope_type", "linear"}, {"factor", 2}}, [](const RotaryRule& rule) {
    EXPECT_EQ(rule.kind, RopeKind::kLinear);
    EXPECT_EQ(rule.factor, 2.0);
  });
  both({{"rope_type", "dynamic"}, {"factor", 4.0}, {"original_max_position_embeddings", 100}},
       [](const RotaryRule& rule) {
         EXPECT_EQ(rule.kind, RopeKind::kDynamic);
         EXPECT_TRUE(rule.depends_on_length());
         EXPECT_EQ(rule.original_length, 8192) << "Transformers goes by max_position_embeddings";
       });
  both({{"rope_type", "yarn"},
        {"factor", 4.0},
        {"original_max_position_embeddings", 2048},
        {"beta_fast", 20},
        {"truncate", false}},
       [](const RotaryRule& rule) {
         EXPECT_EQ(rule.kind, RopeKind::kYarn);
         EXPECT_EQ(rule.original_length, 2048);
         EXPECT_EQ(rule.beta_fast, 20.0);
         EXPECT_EQ(rule.beta_slow, 1.0);
         EXPECT_FALSE(rule.truncate);
         EXPECT_DOUBLE_EQ(rule.attention_factor, 0.1 * std::log(4.0) + 1);
       });
  both({{"rope_type", "yarn"}, {"factor", 40.0}, {"mscale", 1.0}, {"mscale_all_dim", 0.7}},
       [](const RotaryRule& rule) {
         EXPECT_EQ(rule.original_length, 8192);
         EXPECT_DOUBLE_EQ(rule.attention_factor,
                          (0.1 * std::log(40.0) + 1) / (0.07 * std::log(40.0) + 1));
       });
  both({{"rope_type", "yarn"}, {"factor", 40.0}, {"attention_factor", 0.9}},
       [](const RotaryRule& rule) { EXPECT_EQ(rule.attention_factor, 0.9); });
  both({{"rope_type", "llama3"},
        {"factor", 8.0},
        {"low_freq_factor", 1.5},
        {"high_freq_factor", 5.0},
        {"original_max_position_embeddings", 4096}},
       [](const RotaryRule& rule) {
         EXPECT_EQ(rule.kind, RopeKind::kLlama3);
         EXPECT_EQ(rule.low_freq_factor, 1.5);
         EXPECT_EQ(rule.high_freq_factor, 5.0);
         EXPECT_EQ(rule.original_length, 4096);
         EXPECT_FALSE(rule.depends_on_length());
       });
  const std::vector<double> shorter(32, 1.5), longer(32, 4.0);
  for (const char* name : {"longrope", "su"}) {
    both({{"rope_type", name}, {"short_factor", shorter}, {"long_factor", longer}},
         [&](const RotaryRule& rule) {
           EXPECT_EQ(rule.kind, RopeKind::kLongRope);
           EXPECT_EQ(rule.short_factor, shorter);
           EXPECT_EQ(rule.long_factor, longer);
           EXPECT_EQ(rule.original_length, 1024);
           EXPECT_DOUBLE_EQ(rule.attention_factor, std::sqrt(1 + std::log(8.0) / std::log(1024.0)));
         },
         {{"original_max_position_embeddings", 1024}});
  }
}

TEST(ConfigTest, RefusesBrokenRopeScaling) {
  const auto scaled = [](const json& scaling) { return With("rope_scaling", scaling); };
  ExpectRefused(scaled({{"rope_type", "yarm"}, {"factor", 2}}), kUnimplemented,
                "rope_scaling: rope_type: 'yarm' is not known; known: default, linear, dynamic, "
                "yarn, llama3, longrope, proportional (did you mean 'yarn'?)");
  ExpectRefused(scaled({{"type", 3}}), kInvalid, "rope_scaling: type: expected a string, got 3");
  ExpectRefused(With("rope_scaling", 3), kInvalid, "rope_scaling: expected an object, got 3");
  ExpectRefused(With("rope_parameters", json::array()), kInvalid,
                "rope_parameters: expected an object, got []");
  for (const char* kind : {"linear", "dynamic", "yarn", "llama3"})
    ExpectRefused(scaled({{"rope_type", kind}}), kInvalid, "rope_scaling: factor: missing");
  for (const json& factor : {json(0), json(-2.0), json("4")})
    ExpectRefused(scaled({{"rope_type", "linear"}, {"factor", factor}}), kInvalid,
                  "rope_scaling: factor: expected");
  ExpectRefused(scaled({{"rope_type", "llama3"}, {"factor", 8.0}}), kInvalid,
                "rope_scaling: original_max_position_embeddings: missing");
  ExpectRefused(scaled({{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"original_max_position_embeddings", 1},
                        {"low_freq_factor", 4}}),
                kInvalid, "high_freq_factor: expected a number above low_freq_factor 4");
  ExpectRefused(
      scaled({{"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 0}}),
      kInvalid, "original_max_position_embeddings: expected a positive number");
  ExpectRefused(scaled({{"rope_type", "yarn"}, {"factor", 8.0}, {"truncate", 1}}), kInvalid,
                "truncate: expected true or false, got 1");
  ExpectRefused(scaled({{"rope_type", "longrope"}}), kInvalid,
                "rope_scaling: short_factor: expected a list of 32 positive numbers, one for each "
                "rotated pair of features, got nothing");
  ExpectRefused(scaled({{"rope_type", "longrope"},
                        {"short_factor", std::vector<double>(32, 1.0)},
                        {"long_factor", std::vector<double>(31, 1.0)}}),
                kInvalid, "rope_scaling: long_factor: expected a list of 32 positive numbers");
  ExpectRefused(scaled({{"rope_type", "longrope"},
                        {"short_factor", std::vector<double>(32, 0.0)},
                        {"long_factor", std::vector<double>(32, 1.0)}}),
                kInvalid, "short_factor");
  ExpectRefused(With("partial_rotary_factor", 0.02), kInvalid,
                "head_dim: 1 of 64 features of a head would be rotated, expected an even number");
  ExpectRefused(With("partial_rotary_factor", 2.0), kInvalid, "128 of 64 features");
  json narrow = SmolLM2();
  narrow["head_dim"] = 2;
  narrow["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}};
  ExpectRefused(ParseConfig(narrow.dump(), "m/config.json"), kInvalid,
                "another type than dynamic, which is undefined for two rotated features");
}

// The defaults of Transformers 4.57.6's configuration classes (for InternLM: of the files next to
// its checkpoints). kv_heads 0: as many as heads; head_dim 0: hidden_size / heads.
struct Defaults {
  const char* model_type;
  int64_t kv_heads, head_dim;
  double rms_norm_eps, rope_theta, partial_rotary_factor;
  int64_t max_position_embeddings;
  bool tied;
  int64_t pad_token_id;  // -1: None
};

const std::vector<Defaults>& TransformersDefaults() {
  static const auto* const defaults = new std::vector<Defaults>{
      // 64 of the 192 features of a head are rotated, which Transformers calls head_dim.
      {"deepseek_v3", 0, 192, 1e-6, 1e4, 1.0 / 3, 4096, false, -1},
      {"gemma", 16, 256, 1e-6, 1e4, 1.0, 8192, true, 0},
      {"gemma2", 4, 256, 1e-6, 1e4, 1.0, 8192, true, 0},
      {"gemma3_text", 4, 256, 1e-6, 1e6, 1.0, 131072, true, 0},
      {"gemma4_text", 4, 256, 1e-6, 1e6, 2.0, 131072, true, 0},  // some heads are twice as wide
      {"glm", 2, 128, 1.5625e-7, 1e4, 0.5, 131072, false, 151329},
      {"glm4", 2, 128, 1.5625e-7, 1e4, 0.5, 131072, false, 151329},
      {"glm4_moe", 8, 0, 1e-5, 1e4, 0.5, 131072, false, -1},
      {"gpt_oss", 8, 64, 1e-5, 1.5e5, 1.0, 131072, false, -1},
      {"granitemoehybrid", 0, 0, 1e-6, 1e4, 1.0, 2048, false, -1},
      {"granite", 0, 0, 1e-6, 1e4, 1.0, 2048, false, -1},
      {"ministral3", 8, 128, 1e-5, 1e6, 1.0, 262144, false, 11},
      {"internlm2", 0, 0, 1e-6, 1e4, 1.0, 2048, false, 0},
      {"internlm3", 2, 0, 1e-6, 1e4, 1.0, 32768, false, -1},
      {"kimi_linear", 0, 192, 1e-5, 1e4, 1.0 / 3, 1048576, false, 163839},
      {"llama", 0, 0, 1e-6, 1e4, 1.0, 2048, false, -1},
      {"lfm2", 8, 0, 1e-5, 1e6, 1.0, 128000, true, 0},
      {"mistral", 8, 0, 1e-6, 1e4, 1.0, 131072, false, -1},
      {"mixtral", 8, 0, 1e-5, 1e6, 1.0, 131072, false, -1},
      {"nemotron_h", 8, 128, 1e-5, 1e4, 1.0, 4096, false, -1},
      {"olmo2", 0, 0, 1e-5, 1e4, 1.0, 2048, false, 1},
      {"olmo3", 0, 0, 1e-5, 1e4, 1.0, 2048, false, 1},
      {"olmo_hybrid", 0, 0, 1e-6, 1e4, 1.0, 65536, false, 100277},
      {"phi3", 0, 0, 1e-5, 1e4, 1.0, 4096, false, 32000},
      {"qwen2", 32, 0, 1e-6, 1e4, 1.0, 32768, false, -1},
      {"qwen2_moe", 16, 0, 1e-6, 1e4, 1.0, 32768, false, -1},
      {"qwen3", 32, 128, 1e-6, 1e4, 1.0, 32768, false, -1},
      {"qwen3_5_moe_text", 2, 256, 1e-6, 1e4, 0.25, 32768, false, -1},
      {"qwen3_5_text", 4, 256, 1e-6, 1e4, 0.25, 32768, false, -1},
      {"qwen3_moe", 4, 0, 1e-6, 1e4, 1.0, 32768, false, -1},
      {"qwen3_next", 2, 256, 1e-6, 1e4, 0.25, 32768, false, -1},
      {"seed_oss", 8, 128, 1e-6, 1e4, 1.0, 524288, false, 1},
      {"smollm3", 4, 0, 1e-6, 2e6, 1.0, 32768, true, 128004},
  };
  return *defaults;
}

TEST(ConfigTest, TakesEachFamilysDefaults) {
  EXPECT_EQ(TransformersDefaults().size(), Families().size());
  for (const Defaults& wanted : TransformersDefaults()) {
    SCOPED_TRACE(wanted.model_type);
    json config = {
        {"model_type", wanted.model_type}, {"vocab_size", 170000},   {"hidden_size", 128},
        {"intermediate_size", 48},         {"num_hidden_layers", 2}, {"num_attention_heads", 32}};
    if (std::string(wanted.model_type) == "nemotron_h") config["hybrid_override_pattern"] = "M*";
    ASSERT_OK_AND_ASSIGN(const ModelConfig parsed, ParseConfig(config.dump(), "m/config.json"));
    EXPECT_EQ(parsed.model_type, wanted.model_type);
    EXPECT_EQ(parsed.kv_heads, wanted.kv_heads > 0 ? wanted.kv_heads : 32);
    EXPECT_EQ(parsed.head_dim, wanted.head_dim > 0 ? wanted.head_dim : 4);
    EXPECT_EQ(parsed.rms_norm_eps, wanted.rms_norm_eps);
    EXPECT_EQ(parsed.rotaries[0].theta, wanted.rope_theta);
    EXPECT_EQ(parsed.rotaries[0].dim, static_cast<int64_t>(static_cast<double>(parsed.head_dim) *
                                                           wanted.partial_rotary_factor));
    EXPECT_EQ(parsed.max_position_embeddings, wanted.max_position_embeddings);
    EXPECT_EQ(parsed.tie_word_embeddings, wanted.tied);
    EXPECT_EQ(parsed.pad_token_id.value_or(-1), wanted.pad_token_id);
    EXPECT_EQ(parsed.layer_rules.size(), 2u);
    json by_architecture = config;
    by_architecture.erase("model_type");
    by_architecture["architectures"] = {parsed.architecture};
    EXPECT_EQ(ParseConfig(by_architecture.dump(), "m/config.json")->model_type, wanted.model_type);
  }
  EXPECT_EQ(Of("MistralForCausalLM", "mistral",
               {{"num_attention_heads", 16}, {"num_key_value_heads", nullptr}, {"head_dim", 36}})
                ->kv_heads,
            8);
  const ModelConfig gemma = *Of("Gemma2ForCausalLM", "gemma2");
  EXPECT_EQ(gemma.score_scale, 1.0 / 16);
  EXPECT_EQ(gemma.score_softcap, 50.0);
  EXPECT_EQ(gemma.logit_softcap, 30.0);
  EXPECT_EQ(gemma.embedding_scale, 24.0);
  EXPECT_TRUE(gemma.norm_adds_one);
  EXPECT_EQ(gemma.activation, Activation::kGeluTanh);
  EXPECT_EQ(Of("Gemma2ForCausalLM", "gemma2", {{"hidden_act", "silu"}})->activation,
            Activation::kGeluTanh)
      << "hidden_activation is Gemma's key";
  const json uncapped = json::parse(R"({"attn_logit_softcapping": null})");
  json config = SmolLM2();
  config.update({{"architectures", {"Gemma2ForCausalLM"}}, {"model_type", "gemma2"}});
  config.update(uncapped);
  EXPECT_EQ(ParseConfig(config.dump(), "c")->score_softcap, 0.0) << "null is none, absent is 50";
}

TEST(ConfigTest, ReadsWhatDiffersFromLayerToLayer) {
  const auto windows = [](const absl::StatusOr<ModelConfig>& config) {
    EXPECT_OK(config);
    std::vector<int64_t> windows;
    for (const LayerRule& layer : config->layer_rules) windows.push_back(layer.window);
    return windows;
  };
  EXPECT_THAT(windows(Of("Gemma2ForCausalLM", "gemma2", {{"sliding_window", 7}})),
              ElementsAre(7, 0, 7, 0));
  EXPECT_THAT(windows(Of("Gemma3ForCausalLM", "gemma3_text",
                         {{"sliding_window", 7}, {"sliding_window_pattern", 3.0}})),
              ElementsAre(7, 7, 0, 7));
  const json types = {"full_attention", "sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_THAT(windows(Of("Gemma3ForCausalLM", "gemma3_text",
                         {{"sliding_window", 7}, {"layer_types", types}})),
              ElementsAre(0, 7, 0, 7));
  EXPECT_THAT(windows(Of("Qwen2ForCausalLM", "qwen2", {{"sliding_window", 7}})),
              ElementsAre(0, 0, 0, 0))
      << "use_sliding_window is false";
  EXPECT_THAT(
      windows(Of("Qwen2ForCausalLM", "qwen2",
                 {{"sliding_window", 7}, {"use_sliding_window", true}, {"max_window_layers", 1}})),
      ElementsAre(0, 7, 7, 7));
  EXPECT_THAT(
      windows(Of("Qwen2ForCausalLM", "qwen2",
                 {{"sliding_window", 7}, {"use_sliding_window", true}, {"layer_types", types}})),
      ElementsAre(0, 7, 0, 7));
  const auto rotaries = [](const absl::StatusOr<ModelConfig>& config) {
    EXPECT_OK(config);
    std::vector<int> rotaries;
    for (const LayerRule& layer : config->layer_rules) rotaries.push_back(layer.rotary);
    return rotaries;
  };
  EXPECT_THAT(rotaries(Of("SmolLM3ForCausalLM", "smollm3")), ElementsAre(0, 0, 0, -1));
  EXPECT_THAT(rotaries(Of("SmolLM3ForCausalLM", "smollm3", {{"no_rope_layers", {1, 0, 1, 1}}})),
              ElementsAre(0, -1, 0, 0));
  EXPECT_THAT(rotaries(Of("Gemma3ForCausalLM", "gemma3_text", {{"sliding_window_pattern", 2}})),
              ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(windows(Of("Olmo3ForCausalLM", "olmo3")), ElementsAre(4096, 4096, 4096, 0));
  EXPECT_THAT(
      windows(Of("Olmo3ForCausalLM", "olmo3", {{"sliding_window", 7}, {"layer_types", types}})),
      ElementsAre(0, 7, 0, 7));
  EXPECT_THAT(rotaries(Of("Olmo3ForCausalLM", "olmo3", {{"layer_types", types}})),
              ElementsAre(0, 1, 0, 1));
  const json windowed = {{"sliding_window", 7}, {"use_sliding_window", true}};
  json by_layer = windowed;
  by_layer["layer_types"] = types;
  EXPECT_THAT(windows(Of("Qwen2MoeForCausalLM", "qwen2_moe", windowed)), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(windows(Of("Qwen2MoeForCausalLM", "qwen2_moe", by_layer)), ElementsAre(0, 7, 0, 7));
  const auto mixed = [](const absl::StatusOr<ModelConfig>& config) {
    EXPECT_OK(config);
    std::vector<bool> mixed;
    for (const LayerRule& layer : config->layer_rules) mixed.push_back(layer.experts);
    return mixed;
  };
  EXPECT_THAT(mixed(Of("MixtralForCausalLM", "mixtral")), ElementsAre(true, true, true, true));
  EXPECT_THAT(mixed(Of("Qwen3MoeForCausalLM", "qwen3_moe", {{"mlp_only_layers", {0}}})),
              ElementsAre(false, true, true, true));
  EXPECT_THAT(mixed(Of("Qwen2MoeForCausalLM", "qwen2_moe",
                       {{"decoder_sparse_step", 2}, {"mlp_only_layers", {1}}})),
              ElementsAre(false, false, false, true));
}

// Keys of Transformers 5: the number of experts has Mixtral's name, and longrope's original context
// is next to its factors (in Transformers 4 only at the top level).
TEST(ConfigTest, ReadsTransformers5sOwnKeys) {
  EXPECT_EQ(Of("Qwen3MoeForCausalLM", "qwen3_moe", {{"num_local_experts", 16}})->experts.count, 16);
  EXPECT_EQ(Of("Qwen3MoeForCausalLM", "qwen3_moe", {{"num_experts", 16}})->experts.count, 16);
  EXPECT_EQ(Of("Qwen3MoeForCausalLM", "qwen3_moe")->experts.count, 128);
  json longrope = {{"rope_type", "longrope"},
                   {"short_factor", std::vector<double>(32, 1.5)},
                   {"long_factor", std::vector<double>(32, 4.0)},
                   {"original_max_position_embeddings", 1024}};
  ASSERT_OK_AND_ASSIGN(const ModelConfig older, With("rope_scaling", longrope));
  EXPECT_EQ(older.rotaries[0].original_length, 8192);
  longrope["rope_theta"] = 1e5;
  json config = SmolLM2();
  config.erase("rope_scaling");
  config["rope_parameters"] = longrope;
  ASSERT_OK_AND_ASSIGN(const ModelConfig newer, ParseConfig(config.dump(), "c"));
  EXPECT_EQ(newer.rotaries[0].original_length, 1024);
  EXPECT_EQ(newer.rotaries[0].factor, 8.0);
  config["rope_parameters"]["factor"] = 4.0;
  EXPECT_EQ(ParseConfig(config.dump(), "c")->rotaries[0].factor, 4.0);
  config["original_max_position_embeddings"] = 2048;
  EXPECT_EQ(ParseConfig(config.dump(), "c")->rotaries[0].original_length, 2048);
}

TEST(ConfigTest, ReadsHowQueriesGrow) {
  const auto of = [](const json& changes) {
    json parameters = {{"rope_type", "yarn"},
                       {"rope_theta", 1e6},
                       {"factor", 16.0},
                       {"original_max_position_embeddings", 16},
                       {"llama_4_scaling_beta", 0.1}};
    parameters.update(changes);
    return Of("Ministral3ForCausalLM", "ministral3",
              {{"rope_theta", nullptr}, {"rope_parameters", parameters}});
  };
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, of(json::object()));
  EXPECT_EQ(config.rotaries[0].query_growth, 0.1);
  EXPECT_EQ(config.rotaries[0].query_growth_length, 16.0);
  EXPECT_EQ(config.layer_rules[0].window, 0);
  EXPECT_EQ(config.rotaries[0].kind, RopeKind::kYarn);
  ExpectRefused(of({{"llama_4_scaling_beta", nullptr}}), kInvalid, "llama_4_scaling_beta");
  ExpectRefused(of({{"llama_4_scaling_beta", -1}}), kInvalid,
                "llama_4_scaling_beta: expected a number, 0 or more, got -1");
  ExpectRefused(of({{"original_max_position_embeddings", nullptr}}), kInvalid,
                "original_max_position_embeddings");
  ASSERT_OK_AND_ASSIGN(const ModelConfig untold,
                       Of("Ministral3ForCausalLM", "ministral3", {{"rope_theta", nullptr}}));
  EXPECT_EQ(untold.rotaries[0].factor, 16.0);
  EXPECT_EQ(untold.rotaries[0].attention_factor, 1.0);
  EXPECT_EQ(untold.rotaries[0].original_length, 16384.0);
  EXPECT_EQ(untold.rotaries[0].query_growth, 0.1);
  EXPECT_EQ(untold.rotaries[0].query_growth_length, 16384.0);
}

// Gemma 3's two rotary embeddings, for which Transformers 5 writes a separate object per kind of
// layer.
TEST(ConfigTest, ReadsGemma3sTwoRotaries) {
  const json newer = {
      {"rope_theta", nullptr},
      {"rope_parameters",
       {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 3e4}}}}}};
  const json older = {{"rope_theta", 2e6},
                      {"rope_local_base_freq", 3e4},
                      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  for (const json& shape : {older, newer}) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, Of("Gemma3ForCausalLM", "gemma3_text", shape));
    ASSERT_EQ(config.rotaries.size(), 2u);
    EXPECT_EQ(config.rotaries[0].kind, RopeKind::kLinear);
    EXPECT_EQ(config.rotaries[0].factor, 8.0);
    EXPECT_EQ(config.rotaries[0].theta, 2e6);
    EXPECT_EQ(config.rotaries[1].kind, RopeKind::kDefault);
    EXPECT_EQ(config.rotaries[1].theta, 3e4);
  }
}

TEST(ConfigTest, ReadsWhichLayersAttend) {
  const auto attend = [](const absl::StatusOr<ModelConfig>& config) {
    EXPECT_OK(config);
    std::vector<bool> attend;
    for (const LayerRule& layer : config->layer_rules) {
      attend.push_back(layer.attends());
      EXPECT_EQ(layer.rotary, attend.back() ? 0 : -1);
    }
    return attend;
  };
  const auto next = [](const json& more) { return Of("Qwen3NextForCausalLM", "qwen3_next", more); };
  EXPECT_THAT(attend(next({{"num_hidden_layers", 8}})),
              ElementsAre(false, false, false, true, false, false, false, true));
  EXPECT_THAT(attend(next({{"full_attention_interval", 2}})),
              ElementsAre(false, true, false, true));
  const json types = {"full_attention", "linear_attention", "full_attention", "linear_attention"};
  EXPECT_THAT(attend(next({{"full_attention_interval", 3}, {"layer_types", types}})),
              ElementsAre(true, false, true, false));
  const auto lfm = [](const json& more) { return Of("Lfm2ForCausalLM", "lfm2", more); };
  EXPECT_THAT(attend(lfm({{"num_hidden_layers", 3}})), ElementsAre(true, true, true));
  EXPECT_THAT(attend(lfm({{"full_attn_idxs", {2, 0}}})), ElementsAre(true, false, true, false));
  EXPECT_THAT(attend(lfm({{"layer_types", {"conv", "full_attention", "conv", "conv"}}})),
              ElementsAre(false, true, false, false));
  const auto olmo = [](const json& more) {
    return Of("OlmoHybridForCausalLM", "olmo_hybrid", more);
  };
  EXPECT_THAT(attend(olmo({{"num_hidden_layers", 5}})),
              ElementsAre(false, false, false, true, false));
  EXPECT_THAT(attend(olmo({{"num_hidden_layers", 2}})), ElementsAre(false, true));
  const DeltaRule delta = olmo(json::object())->delta;  // hidden 576, 9 heads
  EXPECT_THAT(
      (std::vector<int64_t>{delta.key_heads, delta.value_heads, delta.key_dim, delta.value_dim}),
      ElementsAre(9, 9, 48, 96));
  EXPECT_EQ(delta.beta_scale, 2.0);
  EXPECT_EQ(delta.norm_eps, 1e-5);
  EXPECT_EQ(olmo({{"linear_allow_neg_eigval", false}})->delta.beta_scale, 1.0);
  for (const char* still :
       {R"({"rope_parameters": {"rope_theta": null}})",
        R"({"rope_theta": null, "rope_parameters": {"rope_type": "default"}})"}) {
    json config = SmolLM2();
    config.update({{"architectures", {"OlmoHybridForCausalLM"}}, {"model_type", "olmo_hybrid"}});
    config.update(json::parse(still));
    ASSERT_OK_AND_ASSIGN(const ModelConfig parsed, ParseConfig(config.dump(), "c"));
    for (const LayerRule& layer : parsed.layer_rules) EXPECT_EQ(layer.rotary, -1) << still;
  }
  EXPECT_EQ(next(json::object())->layers_of(&kGatedDelta), 3);
  EXPECT_EQ(next(json::object())->delta.values(), 32 * 128);
  EXPECT_EQ(next(json::object())->delta.keys(), 16 * 128);
  EXPECT_TRUE(next(json::object())->experts.normalised);
}

TEST(ConfigTest, ReadsLayersThatAreHalfABlock) {
  const auto of = [](const json& more) {
    json config = SmolLM2();
    config.erase("num_hidden_layers");
    config.update({{"architectures", {"NemotronHForCausalLM"}}, {"model_type", "nemotron_h"}});
    config.update(more);
    return ParseConfig(config.dump(), "m/config.json");
  };
  const json types = {"mamba", "moe", "full_attention", "mlp", "linear_attention", "attention"};
  const ModelConfig config = *of({{"layers_block_type", types},
                                  {"hybrid_override_pattern", "MM"},
                                  {"num_hidden_layers", 3},
                                  {"moe_latent_size", 32},
                                  {"mamba_n_groups", 4},
                                  {"n_groups", 3},
                                  {"pad_token_id", 0}});
  ASSERT_EQ(config.layers, 6) << "the list says how many";
  std::vector<const Mixer*> mixers;
  std::vector<bool> mlps, experts;
  for (const LayerRule& layer : config.layer_rules) {
    mixers.push_back(layer.mixer);
    mlps.push_back(layer.mlp);
    experts.push_back(layer.experts);
    EXPECT_EQ(layer.rotary, -1);
  }
  EXPECT_THAT(mixers, ElementsAre(&kStateSpace, nullptr, &kSoftmaxAttention, nullptr, &kStateSpace,
                                  &kSoftmaxAttention));
  EXPECT_THAT(mlps, ElementsAre(false, true, false, true, false, false));
  EXPECT_THAT(experts, ElementsAre(false, true, false, false, false, false));
  EXPECT_EQ(config.mlp_layers(), 2);
  EXPECT_EQ(config.activation, Activation::kReluSquared);
  EXPECT_EQ(config.experts.shared, 7688) << "of moe_shared_expert_intermediate_size";
  EXPECT_EQ(config.experts.width, 32);
  EXPECT_EQ(config.state_space.groups, 4) << "as Transformers takes the two names";
  EXPECT_EQ(config.state_space.least_step, 0.001);
  EXPECT_FALSE(config.pad_token_id.has_value()) << "its embedding has no padding_idx";
  // Infinity, as Python writes it.
  std::string text = of({{"hybrid_override_pattern", "M-"}, {"time_step_limit", "THERE"}})->json;
  text.replace(text.find("\"THERE\""), 7, "[0.0, Infinity]");
  ASSERT_OK_AND_ASSIGN(const ModelConfig unbound, ParseConfig(text, "m/config.json"));
  EXPECT_TRUE(unbound.python_numbers);
  EXPECT_EQ(json::parse(unbound.json)["time_step_limit"][1], json({{"__float__", "Infinity"}}));
  EXPECT_FALSE(config.python_numbers);

  const ModelConfig pattern = *of({{"hybrid_override_pattern", "M-*E"}});
  ASSERT_EQ(pattern.layers, 4);
  EXPECT_TRUE(pattern.layer_rules[3].experts);
  EXPECT_EQ(of({{"hybrid_override_pattern", "M-*-"}})->experts.count, 0);
  const auto refuses = [&](const json& more, const char* why) {
    const auto parsed = of(more);
    ASSERT_FALSE(parsed.ok()) << why;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(why));
  };
  refuses(json::object(), "layers_block_type");
  refuses({{"hybrid_override_pattern", "M?"}}, "layer 1 is \"?\"");
  refuses({{"layers_block_type", {"mlp", "rnn"}}}, "layer 1 is \"rnn\"");
  refuses({{"layers_block_type", 3}}, "an item for each layer");
  refuses({{"hybrid_override_pattern", ""}}, "an item for each layer");
  refuses({{"hybrid_override_pattern", "M"}, {"attention_bias", true}}, "attention_bias");
  refuses({{"hybrid_override_pattern", "M"}, {"n_groups", 5}}, "n_groups");
  refuses({{"hybrid_override_pattern", "E"}, {"mlp_bias", true}}, "mlp_bias");
  refuses({{"hybrid_override_pattern", "M"}, {"mamba_hidden_act", "gelu"}}, "mamba_hidden_act");
}

TEST(ConfigTest, ReadsLatentAttention) {
  const auto of = [](const json& more) {  // nulls are kept
    json config = SmolLM2();
    config.update({{"architectures", {"DeepseekV3ForCausalLM"}},
                   {"model_type", "deepseek_v3"},
                   {"num_attention_heads", 8},
                   {"num_key_value_heads", 8}});
    config.update(more);
    return ParseConfig(config.dump(), "m/config.json");
  };
  const ModelConfig plain = *of(json::object());
  EXPECT_THAT((std::vector<int64_t>{plain.latent.query_rank, plain.latent.key_value_rank,
                                    plain.latent.plain_dim, plain.latent.rotary_dim,
                                    plain.latent.value_dim}),
              ElementsAre(1536, 512, 128, 64, 128));
  EXPECT_DOUBLE_EQ(plain.score_scale, 1.0 / std::sqrt(192.0));
  EXPECT_TRUE(plain.rotaries[0].interleaved);
  EXPECT_EQ(plain.rotaries[0].dim, 64);
  EXPECT_EQ(plain.layer_rules[0].head_dim, 192);
  EXPECT_EQ(plain.value_dim(plain.layer_rules[0]), 128);
  EXPECT_EQ(of({{"q_lora_rank", nullptr}})->latent.query_rank, 0);
  EXPECT_FALSE(of({{"rope_interleave", false}})->rotaries[0].interleaved);
  // DeepSeek-V3's values: cosines are not scaled, scores are multiplied by (0.1 ln 40 + 1)^2.
  const json yarn = {{"type", "yarn"},
                     {"factor", 40},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0},
                     {"beta_fast", 32},
                     {"beta_slow", 1},
                     {"original_max_position_embeddings", 4096}};
  const double magnitude = 0.1 * std::log(40.0) + 1;
  const auto scaled = [&](const json& more) { return *of({{"rope_scaling", more}}); };
  EXPECT_DOUBLE_EQ(scaled(yarn).score_scale, magnitude * magnitude / std::sqrt(192.0));
  EXPECT_DOUBLE_EQ(scaled(yarn).rotaries[0].attention_factor, 1.0);
  json without = yarn;
  without.erase("mscale_all_dim");
  EXPECT_DOUBLE_EQ(scaled(without).score_scale, 1.0 / std::sqrt(192.0));
  // Kimi-K2's files have another model_type.
  EXPECT_OK(of({{"model_type", "kimi_k2"}}));
  const auto says = [](const absl::StatusOr<ModelConfig>& config) {
    return std::string(config.status().message());
  };
  EXPECT_THAT(says(of({{"num_key_value_heads", 2}})),
              HasSubstr("num_key_value_heads: expected as many as num_attention_heads, 8"));
  EXPECT_THAT(says(of({{"qk_rope_head_dim", 5}})),
              HasSubstr("qk_rope_head_dim: expected an even number"));
  EXPECT_THAT(says(of({{"kv_lora_rank", 0}})), HasSubstr("kv_lora_rank: expected a whole number"));
}

// Kimi Linear can be read with the keys of the published file and with those that Transformers 5
// writes.
TEST(ConfigTest, ReadsKimiLinear) {
  const auto of = [](const json& more) {  // nulls are kept
    json config = SmolLM2();
    config.update({{"architectures", {"KimiLinearForCausalLM"}},
                   {"model_type", "kimi_linear"},
                   {"num_attention_heads", 8},
                   {"num_key_value_heads", 8},
                   {"num_hidden_layers", 6}});
    config.update(more);
    return ParseConfig(config.dump(), "m/config.json");
  };
  const auto attend = [](const absl::StatusOr<ModelConfig>& config) {
    std::vector<bool> attends;
    for (const LayerRule& layer : config.value().layer_rules) attends.push_back(layer.attends());
    return attends;
  };
  const ModelConfig plain = *of(json::object());
  EXPECT_THAT(attend(plain), ElementsAre(false, false, false, false, true, false));
  EXPECT_EQ(plain.delta.values(), 32 * 128);
  EXPECT_EQ(plain.delta.decays(), 32 * 128);
  EXPECT_EQ(plain.delta.taps, 4);
  EXPECT_EQ(plain.delta.gate, NormGate::kSigmoid);
  EXPECT_EQ(plain.latent.query_rank, 0);
  EXPECT_EQ(plain.latent.key_value_rank, 512);
  EXPECT_DOUBLE_EQ(plain.score_scale, 1.0 / std::sqrt(192.0));
  for (const LayerRule& layer : plain.layer_rules) EXPECT_EQ(layer.rotary, -1);
  EXPECT_FALSE(plain.layer_rules[0].experts);
  EXPECT_TRUE(plain.layer_rules[1].experts);
  EXPECT_THAT((std::vector<int64_t>{plain.experts.count, plain.experts.chosen,
                                    plain.experts.intermediate, plain.experts.shared}),
              ElementsAre(256, 8, 1024, 1024));
  EXPECT_EQ(plain.experts.scale, 2.446);
  const json linear = {{"kda_layers", {1, 2, 4, 5}},
                       {"full_attn_layers", {3, 6}},
                       {"num_heads", 4},
                       {"head_dim", 16},
                       {"short_conv_kernel_size", 3}};
  const json types = {"full_attention", "linear_attention", "linear_attention",
                      "full_attention", "linear_attention", "linear_attention"};
  const ModelConfig published = *of({{"linear_attn_config", linear},
                                     {"linear_num_heads", 5},
                                     {"model_max_length", 4096},
                                     {"num_experts", 12},
                                     {"num_experts_per_token", 3},
                                     {"num_shared_experts", 2},
                                     {"num_expert_group", 4},
                                     {"topk_group", 2},
                                     {"moe_renormalize", false},
                                     {"first_k_dense_replace", 3}});
  EXPECT_THAT(attend(published), ElementsAre(false, false, true, false, false, true));
  EXPECT_EQ(published.delta.values(), 4 * 16);
  EXPECT_EQ(published.delta.rank, 16);
  EXPECT_EQ(published.delta.taps, 3);
  EXPECT_EQ(published.max_position_embeddings, 4096);
  EXPECT_THAT((std::vector<int64_t>{published.experts.count, published.experts.chosen,
                                    published.experts.shared, published.experts.groups}),
              ElementsAre(12, 3, 2048, 4));
  EXPECT_FALSE(published.experts.normalised);
  EXPECT_FALSE(published.layer_rules[2].experts);
  EXPECT_TRUE(published.layer_rules[3].experts);
  const ModelConfig newer =
      *of({{"layer_types", types},
           {"linear_attn_config", linear},
           {"mlp_layer_types", {"sparse", "dense", "dense", "sparse", "dense", "dense"}}});
  EXPECT_THAT(attend(newer), ElementsAre(true, false, false, true, false, false));
  EXPECT_TRUE(newer.layer_rules[0].experts);
  EXPECT_FALSE(newer.layer_rules[1].experts);
  const auto lists = [&](const char* key, const json& value) {
    json changed = linear;
    changed[key] = value;
    return of({{"linear_attn_config", changed}});
  };
  ExpectRefused(lists("kda_layers", {1, 2, 4}), kInvalid,
                "linear_attn_config: layer 5 is in neither kda_layers nor full_attn_layers");
  ExpectRefused(
      lists("kda_layers", {1, 2, 3, 4, 5}), kInvalid,
      "linear_attn_config: kda_layers: expected a list of layers from 1 to 6, each in one");
  ExpectRefused(lists("full_attn_layers", {0, 3, 6}), kInvalid,
                "full_attn_layers: expected a list of layers from 1 to 6");
  ExpectRefused(of({{"linear_attn_config", 3}}), kInvalid,
                "linear_attn_config: expected an object");
  ExpectRefused(of({{"mla_use_nope", false}}), kInvalid, "mla_use_nope: expected true");
  ExpectRefused(of({{"moe_router_activation_func", "softmax"}}), kInvalid,
                "moe_router_activation_func: expected sigmoid");
  ExpectRefused(of({{"moe_layer_freq", 2}}), kInvalid, "moe_layer_freq: expected 1");
  ExpectRefused(of({{"mlp_layer_types", {"dense"}}}), kInvalid,
                "mlp_layer_types: expected a list of 6 names");
  ExpectRefused(of({{"num_expert_group", 5}}), kInvalid, "num_expert_group: expected a divisor");
  ExpectRefused(
      of({{"num_experts_per_token", 300}}), kInvalid,
      "num_experts_per_token: expected a whole number from 1 to the number of experts, 256");
  ExpectRefused(of({{"linear_num_heads", 1 << 20}, {"linear_head_dim", 1 << 20}}), kInvalid,
                "linear attention's heads x features of a head: expected below 2^29");
}

TEST(ConfigTest, ReadsGraniteHybrid) {
  const auto of = [](const json& more) {
    json config = SmolLM2();
    config.update({{"architectures", {"GraniteMoeHybridForCausalLM"}},
                   {"model_type", "granitemoehybrid"},
                   {"hidden_size", 576},
                   {"num_hidden_layers", 4},
                   {"mamba_n_heads", 18}});
    config.update(more);
    return ParseConfig(config.dump(), "m/config.json");
  };
  const auto mixers = [](const ModelConfig& config) {
    std::vector<const Mixer*> kinds;
    for (const LayerRule& layer : config.layer_rules) kinds.push_back(layer.mixer);
    return kinds;
  };
  const Mixer *const space = &kStateSpace, *const attends = &kSoftmaxAttention;
  const ModelConfig plain = *of(json::object());
  EXPECT_EQ(plain.layers_of(space), plain.layers);
  EXPECT_EQ(plain.state_space.head_dim, 64);
  EXPECT_EQ(plain.state_space.states, 256);
  EXPECT_EQ(plain.state_space.channels(), 1152 + 2 * 256);
  EXPECT_TRUE(plain.state_space.filter_bias);
  EXPECT_FALSE(plain.state_space.map_bias);
  EXPECT_EQ(plain.experts.count, 8);
  EXPECT_EQ(plain.experts.chosen, 2);
  EXPECT_EQ(plain.experts.intermediate, 1536);
  EXPECT_EQ(plain.intermediate_size, 1024);
  EXPECT_EQ(plain.score_scale, 1.0);
  const json types = {"mamba", "attention", "mamba", "attention"};
  const json newer = {"linear_attention", "full_attention", "linear_attention", "full_attention"};
  for (const json& listed : {types, newer}) {
    const ModelConfig config = *of({{"layer_types", listed},
                                    {"num_local_experts", 0},
                                    {"position_embedding_type", "rope"},
                                    {"mamba_d_head", 64},
                                    {"time_step_limit", {0.1, {{"__float__", "Infinity"}}}}});
    EXPECT_THAT(mixers(config), ElementsAre(space, attends, space, attends));
    EXPECT_EQ(config.layer_rules[0].rotary, -1);
    EXPECT_EQ(config.layer_rules[1].rotary, 0);
    EXPECT_EQ(config.experts.count, 0);
    EXPECT_EQ(config.state_space.least_step, 0.1);
    EXPECT_TRUE(std::isinf(config.state_space.most_step));
  }
  EXPECT_EQ(
      of({{"layer_types", types}, {"position_embedding_type", "nope"}})->layer_rules[1].rotary, -1);
  EXPECT_EQ(of({{"mamba_d_head", "auto"}})->state_space.head_dim, 64);
  EXPECT_EQ(of({{"time_step_limit", {0.0, 2.5}}})->state_space.most_step, 2.5);
  ExpectRefused(of({{"layer_types", {"mamba", "attention", "mamba", "conv"}}}), kUnimplemented,
                "layer_types: layer 3 is \"conv\"");
  ExpectRefused(of({{"mamba_n_heads", 7}}), kInvalid, "mamba_n_heads: expected a divisor");
  ExpectRefused(of({{"mamba_d_head", 32}}), kInvalid, "mamba_d_head: expected mamba_expand x");
  ExpectRefused(of({{"mamba_n_groups", 4}}), kInvalid,
                "mamba_n_groups: expected a divisor of mamba_n_heads 18");
  ExpectRefused(of({{"mamba_expand", 1 << 29}}), kInvalid, "mamba_expand: expected a factor");
  ExpectRefused(of({{"mamba_d_state", 1 << 30}}), kInvalid, "mamba_d_state: expected groups");
  ExpectRefused(of({{"num_local_experts", -1}}), kInvalid,
                "num_local_experts: expected a whole number");
  for (const json& limit : std::vector<json>{3, {1.0}, {2.0, 1.0}, {0.0, "inf"}, {0.0, {{"a", 1}}}})
    ExpectRefused(of({{"time_step_limit", limit}}), kInvalid,
                  "time_step_limit: expected a list of two numbers, the least first");
}

// The features of LFM2's MLP are computed as in Transformers' Lfm2MLP: int(2 n / 3), times a
// factor, rounded up.
TEST(ConfigTest, ReadsTheFeaturesOfLfm2sMlp) {
  const auto features = [](const json& more) {
    return Of("Lfm2ForCausalLM", "lfm2", more)->intermediate_size;
  };
  EXPECT_EQ(features({{"intermediate_size", 12288}}), 8192);
  EXPECT_EQ(features({{"block_ff_dim", 6656}}), 4608) << "stands above intermediate_size";
  EXPECT_EQ(features({{"intermediate_size", 33}, {"block_multiple_of", 8}}), 24);
  EXPECT_EQ(
      features(
          {{"intermediate_size", 33}, {"block_multiple_of", 8}, {"block_ffn_dim_multiplier", 1.2}}),
      32);
  json plain = SmolLM2();
  plain.update({{"architectures", {"Lfm2ForCausalLM"}}, {"model_type", "lfm2"}});
  plain.update(json::parse(R"({"intermediate_size": 33, "block_ffn_dim_multiplier": null})"));
  EXPECT_EQ(ParseConfig(plain.dump(), "c")->intermediate_size, 22) << "null: no multiple either";
  EXPECT_EQ(features({{"intermediate_size", 33}, {"block_auto_adjust_ff_dim", false}}), 33);
}

TEST(ConfigTest, RefusesWhatAFamilyCannotBe) {
  ExpectRefused(Of("Qwen3NextForCausalLM", "qwen3_next",
                   {{"layer_types",
                     {"full_attention", "sliding_attention", "full_attention", "full_attention"}}}),
                kUnimplemented,
                "layer_types: layer 1 is \"sliding_attention\", which is not supported "
                "(full_attention and linear_attention are)");
  ExpectRefused(Of("Qwen3NextForCausalLM", "qwen3_next", {{"linear_num_value_heads", 24}}),
                kInvalid, "linear_num_value_heads: expected a multiple of linear_num_key_heads 16");
  ExpectRefused(Of("Qwen3NextForCausalLM", "qwen3_next", {{"linear_conv_kernel_dim", 0}}), kInvalid,
                "linear_conv_kernel_dim: expected a whole number from 1");
  ExpectRefused(Of("Qwen3_5ForCausalLM", "qwen3_5_text", {{"hidden_act", "gelu"}}), kUnimplemented,
                "hidden_act: expected silu, which linear attention takes after its convolution");
  ExpectRefused(Of("Lfm2ForCausalLM", "lfm2", {{"full_attn_idxs", {4}}}), kInvalid,
                "full_attn_idxs: expected a list of layers from 0 to 3");
  ExpectRefused(Of("Gemma3ForCausalLM", "gemma3_text", {{"layer_types", {"full_attention"}}}),
                kInvalid, "layer_types: expected a list of 4 names, one for each layer");
  ExpectRefused(Of("Gemma2ForCausalLM", "gemma2",
                   {{"layer_types",
                     {"full_attention", "full_attention", "linear_attention", "full_attention"}}}),
                kUnimplemented,
                "layer_types: layer 2 is \"linear_attention\", which is not supported "
                "(full_attention and sliding_attention are)");
  ExpectRefused(Of("Gemma3ForCausalLM", "gemma3_text", {{"sliding_window_pattern", 0}}), kInvalid,
                "sliding_window_pattern: expected a whole number from 1");
  ExpectRefused(Of("Gemma3ForCausalLM", "gemma3_text", {{"use_bidirectional_attention", true}}),
                kInvalid, "use_bidirectional_attention: expected false");
  ExpectRefused(Of("Gemma2ForCausalLM", "gemma2", {{"query_pre_attn_scalar", 0}}), kInvalid,
                "query_pre_attn_scalar: expected a positive number, got 0");
  ExpectRefused(Of("Gemma2ForCausalLM", "gemma2", {{"final_logit_softcapping", -1}}), kInvalid,
                "final_logit_softcapping: expected a positive number, got -1");
  ExpectRefused(Of("SmolLM3ForCausalLM", "smollm3", {{"no_rope_layers", {1, 2, 1, 1}}}), kInvalid,
                "no_rope_layers: expected a list of 4 numbers, 0 or 1");
  ExpectRefused(Of("SmolLM3ForCausalLM", "smollm3", {{"no_rope_layers", {1, 1}}}), kInvalid,
                "no_rope_layers: expected a list of 4");
  ExpectRefused(
      Of("MixtralForCausalLM", "mixtral", {{"num_local_experts", 4}, {"num_experts_per_tok", 5}}),
      kInvalid,
      "num_experts_per_tok: expected a whole number from 1 to the number of experts, 4, got 5");
  ExpectRefused(
      Of("Qwen3MoeForCausalLM", "qwen3_moe", {{"num_experts", 4}, {"num_experts_per_tok", 5}}),
      kInvalid, "the number of experts, 4, got 5");
  ExpectRefused(Of("Qwen3MoeForCausalLM", "qwen3_moe", {{"num_experts", 4}}), kInvalid,
                "num_experts_per_tok: expected a whole number from 1 to the number of experts, 4");
  ExpectRefused(Of("Qwen3MoeForCausalLM", "qwen3_moe", {{"mlp_only_layers", {4}}}), kInvalid,
                "mlp_only_layers: expected a list of layers from 0 to 3");
  ExpectRefused(Of("MixtralForCausalLM", "mixtral", {{"num_local_experts", 100000}}), kInvalid,
                "100000 experts, expected at most 10000");
  ExpectRefused(Of("MixtralForCausalLM", "mixtral", {{"router_jitter_noise", 0.1}}), kUnimplemented,
                "router_jitter_noise 0.1");
  ExpectRefused(Of("GraniteForCausalLM", "granite", {{"logits_scaling", 0}}), kInvalid,
                "logits_scaling: expected a positive number");
  ExpectRefused(
      Of("Phi3ForCausalLM", "phi3", {{"resid_pdrop", 0.1}}), kUnimplemented,
      "a layer that drops cannot be the same on any number of ranks; set resid_pdrop to 0");
  ExpectRefused(Of("Phi3ForCausalLM", "phi3", {{"embd_pdrop", 0.1}}), kUnimplemented,
                "set embd_pdrop to 0");
  ExpectRefused(Of("SeedOssForCausalLM", "seed_oss", {{"residual_dropout", 0.1}}), kUnimplemented,
                "set residual_dropout to 0");
  ExpectRefused(
      Of("LlamaForCausalLM", "qwen2"), kInvalid,
      "model_type: expected 'llama' as the architecture is LlamaForCausalLM, got \"qwen2\"");
}

// A quantized checkpoint is rejected. The message states what to do instead, for each quantization
// method and for an object without useful information.
TEST(ConfigTest, RefusesQuantisedCheckpoints) {
  for (const char* method : {"awq", "gptq", "bitsandbytes"}) {
    const auto config = With("quantization_config", {{"quant_method", method}, {"bits", 4}});
    ExpectRefused(
        config, kUnimplemented,
        std::string("quantization_config (") + method +
            "): a quantised checkpoint is not trained here: take the one it was made from");
    EXPECT_THAT(config.status().message(), HasSubstr("dequantize()"));
  }
  for (const json& value :
       {json{{"bits", 4}}, json{{"quant_method", 3}}, json("awq"), json::array()}) {
    ExpectRefused(With("quantization_config", value), kUnimplemented,
                  "quantization_config: a quantised checkpoint");
  }
  EXPECT_OK(With("quantization_config", nullptr));
}

TEST(ConfigTest, RefusesOtherArchitecturesWithTheKnownOnes) {
  EXPECT_THAT(
      With("architectures", {"LlamaForCasualLM"}),
      StatusIs(kUnimplemented,
               AllOf(HasSubstr("m/config.json: architectures: 'LlamaForCasualLM' is not supported; "
                               "supported: LlamaForCausalLM, MistralForCausalLM, "),
                     HasSubstr("did you mean 'LlamaForCausalLM'?"))));
  EXPECT_THAT(With("architectures", {"GPT2LMHeadModel"}),
              StatusIs(kUnimplemented, Not(HasSubstr("did you mean"))));
  EXPECT_THAT(With("model_type", "mistral"),
              StatusIs(kInvalid, HasSubstr("m/config.json: model_type: expected 'llama'")));
  json config = SmolLM2();
  config.erase("architectures");
  config["model_type"] = "gemma3n";
  EXPECT_THAT(
      ParseConfig(config.dump(), "c"),
      StatusIs(
          kUnimplemented,
          HasSubstr("c: model_type: 'gemma3n' is not supported; supported: llama, mistral, ")));
  config.erase("model_type");
  EXPECT_THAT(ParseConfig(config.dump(), "c"),
              StatusIs(kInvalid, HasSubstr("c: architectures: missing")));
}

TEST(ConfigTest, NamesTheKeyThatIsWrong) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads"}) {
    EXPECT_THAT(Without(key),
                StatusIs(kInvalid, std::string("m/config.json: ") + key + ": missing"));
    EXPECT_THAT(With(key, -1),
                StatusIs(kInvalid, AllOf(StartsWith(std::string("m/config.json: ") + key),
                                         HasSubstr("got -1"))));
    EXPECT_THAT(With(key, 0), StatusIs(kInvalid, HasSubstr(key)));
    EXPECT_THAT(With(key, 1.5), StatusIs(kInvalid, AllOf(HasSubstr(key), HasSubstr("got 1.5"))));
    EXPECT_THAT(With(key, "576"),
                StatusIs(kInvalid, AllOf(HasSubstr(key), HasSubstr("got \"576\""))));
    EXPECT_THAT(With(key, uint64_t{1} << 63), StatusIs(kInvalid, HasSubstr(key)));
  }
  const std::vector<std::pair<std::string, json>> wrong = {{"num_key_value_heads", 2},
                                                           {"num_attention_heads", 7},
                                                           {"head_dim", 63},
                                                           {"head_dim", 0},
                                                           {"rms_norm_eps", "x"},
                                                           {"rms_norm_eps", -1},
                                                           {"rope_theta", 0},
                                                           {"rope_theta", -3.0},
                                                           {"rope_theta", "x"},
                                                           {"tie_word_embeddings", 1},
                                                           {"attention_bias", "no"},
                                                           {"eos_token_id", "</s>"},
                                                           {"eos_token_id", 49152},
                                                           {"eos_token_id", {1, "x"}},
                                                           {"bos_token_id", 50000},
                                                           {"architectures", "LlamaForCausalLM"},
                                                           {"max_position_embeddings", -1}};
  for (const auto& [key, value] : wrong) {
    EXPECT_THAT(With(key, value), StatusIs(kInvalid, StartsWith("m/config.json: ")))
        << key << " " << value;
  }
  EXPECT_THAT(With("num_key_value_heads", 2),
              StatusIs(kInvalid,
                       "m/config.json: num_key_value_heads: expected a divisor of "
                       "num_attention_heads 9, got 2"));
  EXPECT_THAT(
      With("hidden_act", "relu"),
      StatusIs(kUnimplemented,
               HasSubstr("m/config.json: hidden_act: 'relu' is not supported (silu, gelu")));
  EXPECT_THAT(With("quantization_config", {{"bits", 4}}),
              StatusIs(kUnimplemented, HasSubstr("quantization_config")));
  EXPECT_THAT(With("attention_dropout", 0.1),
              StatusIs(kUnimplemented, HasSubstr("set attention_dropout to 0")));
}

TEST(ConfigTest, AMistralHasAWindowUnlessItSaysNone) {
  json config = SmolLM2();
  config["sliding_window"] = 128;
  ASSERT_OK_AND_ASSIGN(const ModelConfig llama, ParseConfig(config.dump(), "m/config.json"));
  EXPECT_EQ(llama.layer_rules[0].window, 0)
      << "as in Transformers, where Llama's attention knows no window";
  config["architectures"] = {"MistralForCausalLM"};
  config["model_type"] = "mistral";
  const auto window = [&] {
    return ParseConfig(config.dump(), "m/config.json")->layer_rules[29].window;
  };
  EXPECT_EQ(window(), 128);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(window(), 0);
  config.erase("sliding_window");
  EXPECT_EQ(window(), 4096);
  config["sliding_window"] = 0;
  EXPECT_THAT(ParseConfig(config.dump(), "m/config.json"),
              StatusIs(kInvalid, HasSubstr("sliding_window: expected a whole number from 1")));
  config["sliding_window"] = 64;
  config["num_attention_heads"] = 16;
  config["head_dim"] = 36;
  config.erase("num_key_value_heads");
  EXPECT_EQ(ParseConfig(config.dump(), "m/config.json")->kv_heads, 8);
}

TEST(ConfigTest, BrokenJsonGivesLineAndColumn) {
  EXPECT_THAT(ParseConfig("{\n  \"hidden_size\": 576,\n  \"vocab_size\" 5\n}", "m/config.json"),
              StatusIs(kInvalid, StartsWith("m/config.json: line 3, column 16: syntax error")));
  EXPECT_THAT(ParseConfig("", "m/config.json"),
              StatusIs(kInvalid, "m/config.json: the file is empty"));
  EXPECT_THAT(ParseConfig("[1, 2]", "m/config.json"),
              StatusIs(kInvalid, "m/config.json: expected an object {...}, got [1,2]"));
  EXPECT_THAT(ParseConfig(R"({"a": 1, "b": {"a": 2}, "a": 3})", "m/config.json"),
              StatusIs(kInvalid, "m/config.json: 'a' is there twice"));
  EXPECT_THAT(ParseConfig("{\"a\": 1e999}", "m/config.json"),
              StatusIs(kInvalid, StartsWith("m/config.json: ")));
  EXPECT_THAT(ParseConfig(std::string("{\"a\": \"\xff\xfe\"}"), "m/config.json"),
              StatusIs(kInvalid, StartsWith("m/config.json: line 1")));
  const auto long_one = ParseConfig("{\"a\": \"" + std::string(100000, 'x'), "m/config.json");
  EXPECT_THAT(long_one, StatusIs(kInvalid, StartsWith("m/config.json: line 1")));
  EXPECT_LT(long_one.status().message().size(), 300);
}

// Files written by Transformers 4.57.6, and files written by hand in the layout of version 5, can
// be read.
TEST(ConfigTest, ReadsThePeersFiles) {
  struct Case {
    const char* name;
    double theta;
    int64_t heads, kv_heads, head_dim;
  };
  for (const Case& wanted : {Case{"bf16", 1e5, 4, 2, 16}, Case{"rope_parameters", 1e5, 4, 2, 8},
                             Case{"head_dim", 1e4, 4, 2, 16}, Case{"sharded", 1e4, 4, 2, 8}}) {
    const std::string path = std::string("tests/golden/model/") + wanted.name + "/config.json";
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, ParseConfig(ReadAll(path), path));
    EXPECT_EQ(config.rotaries[0].theta, wanted.theta) << path;
    EXPECT_EQ(config.heads, wanted.heads) << path;
    EXPECT_EQ(config.kv_heads, wanted.kv_heads) << path;
    EXPECT_EQ(config.head_dim, wanted.head_dim) << path;
  }
}

// The config of gemma-3-4b-it, which omits Transformers' defaults.
json Gemma3Vision() {
  return {{"architectures", {"Gemma3ForConditionalGeneration"}},
          {"model_type", "gemma3"},
          {"eos_token_id", {1, 106}},
          {"image_token_index", 262144},
          {"text_config",
           {{"hidden_size", 2560},
            {"intermediate_size", 10240},
            {"model_type", "gemma3_text"},
            {"num_hidden_layers", 34},
            {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
            {"sliding_window", 1024}}},
          {"torch_dtype", "bfloat16"},
          {"vision_config", {{"hidden_size", 1152}, {"model_type", "siglip_vision_model"}}}};
}

TEST(CompositeConfigTest, TakesWhatPublishedFilesLeaveOut) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, ParseConfig(Gemma3Vision().dump(), "m"));
  EXPECT_EQ(config.architecture, "Gemma3ForConditionalGeneration");
  EXPECT_EQ(config.model_type, "gemma3");
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.hidden_size, 2560);
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.layers, 34);
  EXPECT_EQ(config.layer_rules[4].window, 1024);
  EXPECT_EQ(config.layer_rules[5].window, 0);
  EXPECT_EQ(config.rotaries[0].factor, 8.0);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(1, 106));
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.json, Gemma3Vision().dump());
}

TEST(CompositeConfigTest, SaysWhereItIsWrong) {
  const auto with = [](const std::function<void(json&)>& change) {
    json config = Gemma3Vision();
    change(config);
    return ParseConfig(config.dump(), "m/config.json");
  };
  ExpectRefused(with([](json& c) { c.erase("text_config"); }), kInvalid, "text_config: missing");
  ExpectRefused(with([](json& c) { c["text_config"] = 3; }), kInvalid,
                "text_config: expected an object, got 3");
  ExpectRefused(with([](json& c) { c["text_config"]["model_type"] = "gemma2"; }), kUnimplemented,
                "text_config: model_type: 'gemma2' is not supported in "
                "Gemma3ForConditionalGeneration; supported: gemma3_text");
  ExpectRefused(with([](json& c) { c["text_config"]["hidden_size"] = -1; }), kInvalid,
                "text_config: hidden_size: expected a whole number");
  ExpectRefused(with([](json& c) { c["model_type"] = "gemma3_text"; }), kInvalid,
                "model_type: expected 'gemma3' as the architecture is "
                "Gemma3ForConditionalGeneration, got \"gemma3_text\"");
  ExpectRefused(with([](json& c) { c["text_config"]["quantization_config"] = json::object(); }),
                kUnimplemented, "text_config: quantization_config");
  ExpectRefused(
      ParseConfig(
          R"({"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl",
              "text_config": {"vocab_size": 48, "hidden_size": 16, "intermediate_size": 16,
                              "num_hidden_layers": 1, "num_attention_heads": 32}})",
          "m/config.json"),
      kInvalid, "text_config: rope_theta: missing");
}

}  // namespace
}  // namespace moonring::model
