#include "model/config.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/model/scratch_folder.h"
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

// SmolLM2-135M's, as its converter writes it.
json SmolLM2() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": false, "hidden_act": "silu",
      "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
      "head_dim": 64, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 100000.0, "rope_scaling": null,
      "tie_word_embeddings": true, "vocab_size": 49152, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2})");
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
  EXPECT_EQ(config.rope_theta, 1e5);
  EXPECT_EQ(config.max_position_embeddings, 8192);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_FALSE(config.attention_bias);
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
  EXPECT_EQ(Without("rope_theta")->rope_theta, 10000.0);
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
  EXPECT_EQ(ParseConfig(config.dump(), "c")->rope_theta, 130000.0);
  config["rope_theta"] = 130000.0;
  EXPECT_EQ(ParseConfig(config.dump(), "c")->rope_theta, 130000.0);
  config["rope_theta"] = 10000.0;
  EXPECT_THAT(ParseConfig(config.dump(), "c"), StatusIs(kInvalid, AllOf(HasSubstr("rope_theta is 10000 at the top level but 130000 in rope_parameters"))));
}

TEST(ConfigTest, TakesSeveralEndTokens) {
  EXPECT_THAT(With("eos_token_id", {7, 9})->eos_token_ids, ElementsAre(7, 9));
  EXPECT_THAT(With("eos_token_id", -1)->eos_token_ids, IsEmpty());
  EXPECT_FALSE(With("pad_token_id", -1)->pad_token_id.has_value());
  EXPECT_FALSE(With("pad_token_id", 49152)->pad_token_id.has_value());
}

TEST(ConfigTest, AllowsHeadsThatAreNotHiddenOverHeads) { EXPECT_EQ(With("head_dim", 128)->head_dim, 128); }

TEST(ConfigTest, RefusesRopeScalingByName) {
  EXPECT_THAT(With("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}),
              StatusIs(kUnimplemented, HasSubstr("m/config.json: rope_scaling llama3 is not supported yet")));
  EXPECT_THAT(With("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}), StatusIs(kUnimplemented, HasSubstr("rope_scaling linear is not supported yet")));
  EXPECT_THAT(With("rope_parameters", {{"rope_type", "yarn"}}), StatusIs(kUnimplemented, HasSubstr("rope_scaling yarn is not supported yet")));
  EXPECT_OK(With("rope_scaling", {{"rope_type", "default"}}));
  EXPECT_THAT(With("rope_scaling", 3), StatusIs(kInvalid, HasSubstr("m/config.json: rope_scaling: wanted an object, got 3")));
}

TEST(ConfigTest, RefusesOtherArchitecturesWithTheKnownOnes) {
  EXPECT_THAT(With("architectures", {"LlamaForCasualLM"}),
              StatusIs(kUnimplemented, AllOf(HasSubstr("m/config.json: architectures: 'LlamaForCasualLM' is not supported yet; supported: LlamaForCausalLM"),
                                             HasSubstr("did you mean 'LlamaForCausalLM'?"))));
  EXPECT_THAT(With("architectures", {"GPT2LMHeadModel"}), StatusIs(kUnimplemented, Not(HasSubstr("did you mean"))));
  EXPECT_THAT(With("model_type", "mistral"), StatusIs(kInvalid, HasSubstr("m/config.json: model_type: wanted 'llama'")));
  json config = SmolLM2();
  config.erase("architectures");
  config["model_type"] = "gemma3";
  EXPECT_THAT(ParseConfig(config.dump(), "c"), StatusIs(kUnimplemented, HasSubstr("c: model_type: 'gemma3' is not supported yet; supported: llama")));
  config.erase("model_type");
  EXPECT_THAT(ParseConfig(config.dump(), "c"), StatusIs(kInvalid, HasSubstr("c: architectures: missing")));
}

TEST(ConfigTest, NamesTheKeyThatIsWrong) {
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    EXPECT_THAT(Without(key), StatusIs(kInvalid, std::string("m/config.json: ") + key + ": missing"));
    EXPECT_THAT(With(key, -1), StatusIs(kInvalid, AllOf(StartsWith(std::string("m/config.json: ") + key), HasSubstr("got -1"))));
    EXPECT_THAT(With(key, 0), StatusIs(kInvalid, HasSubstr(key)));
    EXPECT_THAT(With(key, 1.5), StatusIs(kInvalid, AllOf(HasSubstr(key), HasSubstr("got 1.5"))));
    EXPECT_THAT(With(key, "576"), StatusIs(kInvalid, AllOf(HasSubstr(key), HasSubstr("got \"576\""))));
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
    EXPECT_THAT(With(key, value), StatusIs(kInvalid, StartsWith("m/config.json: "))) << key << " " << value;
  }
  EXPECT_THAT(With("num_key_value_heads", 2), StatusIs(kInvalid, "m/config.json: num_key_value_heads: wanted a divisor of num_attention_heads 9, got 2"));
  EXPECT_THAT(With("hidden_act", "gelu"), StatusIs(kUnimplemented, HasSubstr("hidden_act gelu")));
  EXPECT_THAT(With("quantization_config", {{"bits", 4}}), StatusIs(kUnimplemented, HasSubstr("quantization_config")));
  EXPECT_THAT(With("attention_dropout", 0.1), StatusIs(kUnimplemented, HasSubstr("set attention_dropout to 0")));
  EXPECT_THAT(With("attn_logit_softcapping", 50.0), StatusIs(kUnimplemented, HasSubstr("attn_logit_softcapping 50")));
}

TEST(ConfigTest, AMistralHasAWindowUnlessItSaysNone) {
  json config = SmolLM2();
  config["sliding_window"] = 128;
  ASSERT_OK_AND_ASSIGN(const ModelConfig llama, ParseConfig(config.dump(), "m/config.json"));
  EXPECT_EQ(llama.sliding_window, 0) << "as in Transformers, where Llama's attention knows no window";
  config["architectures"] = {"MistralForCausalLM"};
  config["model_type"] = "mistral";
  const auto window = [&] { return ParseConfig(config.dump(), "m/config.json")->sliding_window; };
  EXPECT_EQ(window(), 128);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(window(), 0);
  config.erase("sliding_window");
  EXPECT_EQ(window(), 4096);
  config["sliding_window"] = 0;
  EXPECT_THAT(ParseConfig(config.dump(), "m/config.json"), StatusIs(kInvalid, HasSubstr("sliding_window: wanted a whole number from 1")));
  config["sliding_window"] = 64;
  config["num_attention_heads"] = 16;
  config["head_dim"] = 36;
  config.erase("num_key_value_heads");
  EXPECT_EQ(ParseConfig(config.dump(), "m/config.json")->kv_heads, 8);
}

TEST(ConfigTest, BrokenJsonGivesLineAndColumn) {
  EXPECT_THAT(ParseConfig("{\n  \"hidden_size\": 576,\n  \"vocab_size\" 5\n}", "m/config.json"),
              StatusIs(kInvalid, StartsWith("m/config.json: line 3, column 16: syntax error")));
  EXPECT_THAT(ParseConfig("", "m/config.json"), StatusIs(kInvalid, "m/config.json: the file is empty"));
  EXPECT_THAT(ParseConfig("[1, 2]", "m/config.json"), StatusIs(kInvalid, "m/config.json: wanted an object {...}, got [1,2]"));
  EXPECT_THAT(ParseConfig(R"({"a": 1, "b": {"a": 2}, "a": 3})", "m/config.json"), StatusIs(kInvalid, "m/config.json: 'a' is there twice"));
  EXPECT_THAT(ParseConfig("{\"a\": 1e999}", "m/config.json"), StatusIs(kInvalid, StartsWith("m/config.json: ")));
  EXPECT_THAT(ParseConfig(std::string("{\"a\": \"\xff\xfe\"}"), "m/config.json"), StatusIs(kInvalid, StartsWith("m/config.json: line 1")));
  const auto long_one = ParseConfig("{\"a\": \"" + std::string(100000, 'x'), "m/config.json");
  EXPECT_THAT(long_one, StatusIs(kInvalid, StartsWith("m/config.json: line 1")));
  EXPECT_LT(long_one.status().message().size(), 300);
}

// Written by Transformers 4.57.6, and by hand in the shape of 5.
TEST(ConfigTest, ReadsThePeersFiles) {
  struct Case {
    const char* name;
    double theta;
    int64_t heads, kv_heads, head_dim;
  };
  for (const Case& wanted :
       {Case{"bf16", 1e5, 4, 2, 16}, Case{"rope_parameters", 1e5, 4, 2, 8}, Case{"head_dim", 1e4, 4, 2, 16}, Case{"sharded", 1e4, 4, 2, 8}}) {
    const std::string path = std::string("tests/golden/model/") + wanted.name + "/config.json";
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, ParseConfig(ReadAll(path), path));
    EXPECT_EQ(config.rope_theta, wanted.theta) << path;
    EXPECT_EQ(config.heads, wanted.heads) << path;
    EXPECT_EQ(config.kv_heads, wanted.kv_heads) << path;
    EXPECT_EQ(config.head_dim, wanted.head_dim) << path;
  }
}

}  // namespace
}  // namespace moonring::model
