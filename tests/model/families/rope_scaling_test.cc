#include "model/families/rope_scaling.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/autograd/parameter.h"
#include "model/blocks/rotary.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/save_folder.h"
#include "model/config/weights.h"
#include "tests/model/small_config.h"
#include "tests/testing/all_close.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::ParsedConfig;
using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::SmallJson;
using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns the config of a Llama with head dim 4 and 32 positions.
ModelConfig Llama(const json& changes = json::object()) {
  json config = SmallJson({{"max_position_embeddings", 32}, {"rope_theta", 5000.0}});
  config.merge_patch(changes);
  return ParsedConfig(config);
}

base::Parameters RandomWeights(const ModelConfig& config) {
  base::Parameters parameters;
  for (const WeightShape& weight : WantedWeights(config))
    parameters.push_back(std::make_shared<base::Parameter>(weight.name, at::randn(weight.shape)));
  return parameters;
}

void ExpectSameRotary(const RotaryRule& a, const RotaryRule& b) {
  EXPECT_EQ(DescribeRope(a), DescribeRope(b));
  EXPECT_EQ(a.dim, b.dim);
  EXPECT_EQ(a.attention_factor, b.attention_factor);
  for (const int64_t length : {1, 32, 33, 500})
    EXPECT_TRUE(BitEqual(InverseFrequencies(a, length, at::kFloat),
                         InverseFrequencies(b, length, at::kFloat)))
        << length;
}

// The factor is ceil(length / C), where C is the context of the model; the new context is C times
// the factor.
TEST(RopeScalingTest, TheFactorIsWhatTheTextNeeds) {
  for (const char* kind : {"linear", "dynamic", "yarn", "llama3"}) {
    for (const auto& [length, factor] :
         {std::pair<int64_t, int64_t>{33, 2}, {64, 2}, {65, 3}, {1000, 32}}) {
      SCOPED_TRACE(::testing::Message() << kind << " for " << length);
      ASSERT_OK_AND_ASSIGN(const ScaledRope scaled, ScaleRope(Llama(), kind, length, "m"));
      const RotaryRule& rule = scaled.config.rotaries[0];
      EXPECT_EQ(RopeName(rule.kind), kind);
      EXPECT_EQ(rule.factor, static_cast<double>(factor));
      EXPECT_EQ(rule.theta, 5000.0);
      EXPECT_EQ(scaled.config.max_position_embeddings, 32 * factor);
      // Transformers' dynamic scaling starts above max_position_embeddings, which is the new
      // context.
      EXPECT_EQ(rule.original_length,
                rule.kind == RopeKind::kLinear || rule.kind == RopeKind::kDynamic
                    ? 32.0 * static_cast<double>(factor)
                    : 32.0);
      EXPECT_THAT(scaled.report,
                  AllOf(HasSubstr(std::string("rotary embedding: ") + kind + ", factor " +
                                  std::to_string(factor)),
                        HasSubstr("; the context grows from 32 to " + std::to_string(32 * factor)),
                        Not(HasSubstr("\n"))));
    }
  }
  ASSERT_OK_AND_ASSIGN(const ScaledRope yarn, ScaleRope(Llama(), "yarn", 128, "m"));
  EXPECT_DOUBLE_EQ(yarn.config.rotaries[0].attention_factor, 0.1 * std::log(4.0) + 1);
  EXPECT_EQ(yarn.report,
            "rotary embedding: yarn, factor 4 over 32 positions, cosines times 1.13863; the "
            "context grows from 32 to 128");
  ASSERT_OK_AND_ASSIGN(const ScaledRope llama3, ScaleRope(Llama(), "llama3", 33, "m"));
  EXPECT_EQ(llama3.config.rotaries[0].low_freq_factor, 1.0);
  EXPECT_EQ(llama3.config.rotaries[0].high_freq_factor, 4.0);
}

TEST(RopeScalingTest, NothingChangesWhereTextsFit) {
  const ModelConfig config = Llama();
  for (const int64_t length : {1, 32}) {
    ASSERT_OK_AND_ASSIGN(const ScaledRope same, ScaleRope(config, "yarn", length, "m"));
    EXPECT_EQ(same.config.json, config.json);
    ExpectSameRotary(same.config.rotaries[0], config.rotaries[0]);
    EXPECT_EQ(same.report, "rope_scaling: yarn: texts of " + std::to_string(length) +
                               " tokens fit the model's 32 positions; unchanged");
  }
}

// Families whose config in Transformers has no rope_scaling are not scaled, as in LLaMA-Factory.
TEST(RopeScalingTest, SomeFamiliesTakeNone) {
  for (const auto& [architecture, model_type] : {std::pair{"MistralForCausalLM", "mistral"},
                                                 {"Gemma2ForCausalLM", "gemma2"},
                                                 {"GlmForCausalLM", "glm"}}) {
    const ModelConfig config =
        Llama({{"architectures", {architecture}}, {"model_type", model_type}});
    ASSERT_OK_AND_ASSIGN(const ScaledRope same, ScaleRope(config, "dynamic", 1000, "m"));
    EXPECT_EQ(same.config.json, config.json);
    EXPECT_EQ(same.report,
              std::string("rope_scaling: dynamic: ") + architecture + " supports none; unchanged");
  }
}

// A new scaling replaces an existing one: it starts from the context of pre-training, not from the
// extended one.
TEST(RopeScalingTest, AScalingThatIsThereIsReplaced) {
  const json there = {{"rope_type", "llama3"},
                      {"factor", 4.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8}};
  ASSERT_OK_AND_ASSIGN(const ScaledRope scaled,
                       ScaleRope(Llama({{"rope_scaling", there}}), "yarn", 33, "m"));
  EXPECT_EQ(scaled.config.max_position_embeddings, 40);
  EXPECT_EQ(scaled.config.rotaries[0].kind, RopeKind::kYarn);
  EXPECT_EQ(scaled.config.rotaries[0].factor, 5.0);
  EXPECT_EQ(scaled.config.rotaries[0].original_length, 8.0);
  EXPECT_EQ(ScaleRope(Llama({{"rope_scaling", there}}), "yarn", 8, "m")->config.rotaries[0].kind,
            RopeKind::kLlama3);
  // An invalid original context is ignored.
  for (const json& original : {json(0), json(0.5), json("8")}) {
    const json linear = {
        {"rope_type", "linear"}, {"factor", 2.0}, {"original_max_position_embeddings", original}};
    EXPECT_EQ(ScaleRope(Llama({{"rope_scaling", linear}}), "linear", 33, "m")
                  ->config.max_position_embeddings,
              64)
        << original;
  }
}

// The keys of an older scaling are removed; mrope_section and unknown keys are kept, in the layouts
// of Transformers 4 and 5 (as in vLLM's pull request 25384).
TEST(RopeScalingTest, KeysOfTheModelStay) {
  const json others = {
      {"mrope_section", {1, 1, 0}}, {"mrope_interleaved", true}, {"odd", {{"a", 1}}}};
  json there = others;
  there.update({{"rope_type", "yarn"},
                {"factor", 2.0},
                {"beta_fast", 16.0},
                {"mscale", 0.5},
                {"original_max_position_embeddings", 16}});
  json parameters = there;
  parameters.update({{"rope_theta", 5000.0}, {"partial_rotary_factor", 1.0}});
  for (const char* kind : {"linear", "dynamic", "yarn", "llama3"}) {
    SCOPED_TRACE(kind);
    json wanted = others;
    wanted.update({{"rope_type", kind}, {"factor", 3.0}});
    if (kind != std::string("linear")) wanted["original_max_position_embeddings"] = 16;
    if (kind == std::string("llama3"))
      wanted.update({{"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}});
    ASSERT_OK_AND_ASSIGN(const ScaledRope older,
                         ScaleRope(Llama({{"rope_scaling", there}}), kind, 33, "m"));
    EXPECT_EQ(json::parse(older.config.json)["rope_scaling"], wanted);
    ASSERT_OK_AND_ASSIGN(
        const ScaledRope newer,
        ScaleRope(Llama({{"rope_theta", nullptr}, {"rope_parameters", parameters}}), kind, 33,
                  "m"));
    const json saved = json::parse(newer.config.json);
    wanted["partial_rotary_factor"] =
        1.0;  // Transformers 5 reads it from rope_scaling, if it exists
    EXPECT_EQ(saved["rope_scaling"], wanted);
    wanted["rope_theta"] = 5000.0;
    EXPECT_EQ(saved["rope_parameters"], wanted);
  }
}

// mrope_section is saved in rope_scaling, even if there is no scaling, because Transformers 4 reads
// it only from there.
TEST(RopeScalingTest, KeysOfTheModelAreSavedForTransformers4WithoutAScalingToo) {
  const ModelConfig config =
      Llama({{"rope_theta", nullptr},
             {"rope_parameters",
              {{"rope_theta", 5000.0}, {"rope_type", "default"}, {"mrope_section", {1, 1, 0}}}}});
  const ScratchFolder scratch;
  ASSERT_OK(SaveFolder(scratch / "saved", config, RandomWeights(config), at::kFloat, {},
                       int64_t{1} << 30));
  EXPECT_EQ(json::parse(ReadAll(scratch / "saved/config.json"))["rope_scaling"],
            json({{"rope_type", "default"}, {"mrope_section", {1, 1, 0}}}));
}

// The form in which experts are stored, and whether there is a head, are known from the files and
// not from the config; scaling does not change them.
TEST(RopeScalingTest, ValuesFromTheWeightsStay) {
  for (const char* const family : {"qwen3_5_moe_vision", "qwen3_vl_moe", "qwen3_5_vision"}) {
    SCOPED_TRACE(family);
    ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                         Checkpoint::Open(std::string("tests/golden/families/") + family));
    const ModelConfig before = checkpoint->config();
    const std::vector<std::string> dtypes = checkpoint->stored_dtypes();
    ASSERT_OK(checkpoint->ScaleRope("yarn", 100'000));
    EXPECT_EQ(checkpoint->config().experts.storage, before.experts.storage);
    EXPECT_EQ(checkpoint->config().tie_word_embeddings, before.tie_word_embeddings);
    EXPECT_EQ(checkpoint->stored_dtypes(), dtypes);
  }
}

TEST(RopeScalingTest, RefusesAnotherKind) {
  EXPECT_THAT(
      ScaleRope(Llama(), "yarm", 100, "m"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "rope_scaling: 'yarm', expected one of linear, dynamic, yarn, llama3 (did you "
               "mean 'yarn'?)"));
  EXPECT_THAT(ScaleRope(Llama(), "longrope", 100, "m"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("'longrope', expected one of linear")));
}

// The saved config gives the same rotary embedding, in both layouts. Transformers 4 only reads the
// top level.
TEST(RopeScalingTest, TheConfigSaysSo) {
  const json newer = {
      {"rope_theta", nullptr},
      {"rope_parameters",
       {{"rope_theta", 5000.0}, {"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}};
  for (const json& shape : {json::object(), newer}) {
    const ModelConfig config = Llama(shape);
    const bool partial = shape.contains("rope_parameters");
    EXPECT_EQ(config.rotaries[0].dim, partial ? 2 : 4);
    for (const char* kind : {"linear", "yarn", "llama3"}) {
      SCOPED_TRACE(::testing::Message() << kind << (partial ? " as Transformers 5 writes it" : ""));
      const ScratchFolder folder;
      ASSERT_OK(SaveFolder(folder / "plain", config, RandomWeights(config), at::kFloat, {},
                           int64_t{1} << 30));
      ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(folder / "plain"));
      ExpectSameRotary(checkpoint->config().rotaries[0], config.rotaries[0]);
      ASSERT_OK_AND_ASSIGN(const std::string report, checkpoint->ScaleRope(kind, 100));
      EXPECT_THAT(report, HasSubstr("the context grows from 32 to 128"));
      ASSERT_OK(SaveFolder(folder / "scaled", checkpoint->config(), RandomWeights(config),
                           at::kFloat, {}, int64_t{1} << 30));
      ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder / "scaled"));
      ExpectSameRotary(again->config().rotaries[0], checkpoint->config().rotaries[0]);
      EXPECT_EQ(again->config().rotaries[0].dim, config.rotaries[0].dim);
      EXPECT_EQ(again->config().max_position_embeddings, 128);
      const json written = json::parse(ReadAll(folder / "scaled/config.json"));
      EXPECT_EQ(written["rope_theta"], 5000.0);
      EXPECT_EQ(written["rope_scaling"]["rope_type"], kind);
      EXPECT_EQ(written["rope_scaling"]["factor"], 4.0);
      EXPECT_EQ(written["max_position_embeddings"], 128);
      EXPECT_EQ(written.value("partial_rotary_factor", 1.0), partial ? 0.5 : 1.0);
      if (partial) {
        EXPECT_EQ(written["rope_parameters"]["rope_type"], kind);
        EXPECT_EQ(written["rope_parameters"]["rope_theta"], 5000.0);
        EXPECT_EQ(written["rope_parameters"]["partial_rotary_factor"], 0.5);
      }
      EXPECT_THAT(*again->ScaleRope(kind, 128),
                  kind == std::string("linear") ? HasSubstr("fit")
                                                : HasSubstr("the context grows from 32 to 128"));
    }
  }
}

// In Gemma 3 only one of two rotary embeddings is scaled: layers with a window keep theirs, in both
// layouts.
TEST(RopeScalingTest, OneOfTwoRotariesIsStretched) {
  const json gemma = {{"architectures", {"Gemma3ForCausalLM"}},
                      {"model_type", "gemma3_text"},
                      {"head_dim", 4},
                      {"sliding_window_pattern", 2}};
  const json newer = {{"rope_theta", nullptr},
                      {"rope_parameters",
                       {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 5000.0}}},
                        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 300.0}}}}}};
  for (const json& shape : {json{{"rope_local_base_freq", 300.0}}, newer}) {
    json changes = gemma;
    changes.update(shape);
    ASSERT_OK_AND_ASSIGN(const ScaledRope scaled, ScaleRope(Llama(changes), "linear", 100, "m"));
    ASSERT_EQ(scaled.config.rotaries.size(), 2u);
    EXPECT_EQ(scaled.config.rotaries[0].kind, RopeKind::kLinear);
    EXPECT_EQ(scaled.config.rotaries[0].theta, 5000.0);
    EXPECT_EQ(scaled.config.rotaries[0].factor, 4.0);
    EXPECT_EQ(scaled.config.rotaries[1].kind, RopeKind::kDefault);
    EXPECT_EQ(scaled.config.rotaries[1].theta, 300.0);
  }
}

// Ministral 3's scaling of queries by position is unchanged.
TEST(RopeScalingTest, QueriesGrowAsBefore) {
  const json changes = {{"architectures", {"Ministral3ForCausalLM"}},
                        {"model_type", "ministral3"},
                        {"rope_theta", nullptr},
                        {"rope_parameters",
                         {{"rope_type", "yarn"},
                          {"rope_theta", 5000.0},
                          {"factor", 4.0},
                          {"original_max_position_embeddings", 8},
                          {"llama_4_scaling_beta", 0.25}}}};
  ASSERT_OK_AND_ASSIGN(const ScaledRope scaled, ScaleRope(Llama(changes), "yarn", 33, "m"));
  EXPECT_EQ(scaled.config.rotaries[0].factor, 5.0);
  EXPECT_EQ(scaled.config.rotaries[0].query_growth, 0.25);
  EXPECT_EQ(scaled.config.rotaries[0].query_growth_length, 8.0);
}

// The context of pre-training is written for the layers that are scaled; the other layers keep
// their settings.
TEST(RopeScalingTest, ReplacesWhatTransformers5WroteForLayersWithoutAWindow) {
  json changes = {{"architectures", {"Olmo3ForCausalLM"}}, {"model_type", "olmo3"}};
  changes["rope_theta"] = nullptr;
  changes["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "yarn"},
        {"rope_theta", 5000.0},
        {"factor", 4.0},
        {"original_max_position_embeddings", 8}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5000.0}}}};
  ASSERT_OK_AND_ASSIGN(const ScaledRope scaled, ScaleRope(Llama(changes), "yarn", 33, "m"));
  EXPECT_EQ(scaled.config.max_position_embeddings, 40);
  EXPECT_EQ(scaled.config.rotaries[0].factor, 5.0);
  EXPECT_EQ(scaled.config.rotaries[0].original_length, 8.0);
  EXPECT_EQ(scaled.config.rotaries[1].kind, RopeKind::kDefault);
}

}  // namespace
}  // namespace moonring::model
