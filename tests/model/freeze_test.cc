#include "model/freeze.h"

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/transformer.h"
#include "tests/model/adapted_models.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FreezeTest, LlamaFactorysRules) {
  const auto count = [](int64_t layers, std::vector<std::string> modules,
                        std::vector<std::string> extra = {}) {
    return WeightsThatLearn(SmallConfig(false, 4), {layers, std::move(modules), std::move(extra)})
        ->size();
  };
  EXPECT_EQ(count(1, {"all"}), 9u);
  EXPECT_EQ(count(-3, {"all"}), 27u);
  EXPECT_EQ(count(9, {"all"}), 36u);
  EXPECT_EQ(count(2, {"self_attn"}), 8u);
  EXPECT_EQ(count(2, {"self_attn", "input_layernorm"}, {"lm_head"}), 11u);
  EXPECT_EQ(count(0, {"all"}, {"embed_tokens"}), 1u);
  EXPECT_EQ(count(1, {"mlp"}, {"norm"}), 3u + 9u);  // their names contain the word
  const std::set<std::string> last = *WeightsThatLearn(SmallConfig(false, 4), {1, {"mlp"}, {}});
  EXPECT_THAT(last, ElementsAre("model.layers.3.mlp.down_proj.weight",
                                "model.layers.3.mlp.gate_proj.weight",
                                "model.layers.3.mlp.up_proj.weight"));
  EXPECT_TRUE(WeightsThatLearn(SmallConfig(false, 4), {-1, {"mlp"}, {}})
                  ->contains("model.layers.0.mlp.up_proj.weight"));
  const auto refused = [](FreezeOptions options, const std::string& words) {
    EXPECT_THAT(WeightsThatLearn(SmallConfig(true), options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  refused({2, {"attn"}, {}},
          "freeze_trainable_modules: there is no module 'attn', there are input_layernorm, mlp, "
          "post_attention_layernorm, self_attn");
  refused({2, {"all"}, {"lm_head"}},
          "freeze_extra_modules: there is no module 'lm_head', there are embed_tokens, norm");
  refused({0, {"all"}, {}}, "no weight would be trainable");
}

TEST(FreezeTest, AsLlamaFactoryItselfChooses) {
  const nlohmann::json cases =
      nlohmann::json::parse(std::ifstream("tests/golden/freeze/golden.json"));
  EXPECT_EQ(cases.size(), 24u);
  for (const nlohmann::json& golden : cases) {
    SCOPED_TRACE(golden.dump());
    ASSERT_OK_AND_ASSIGN(
        const auto checkpoint,
        Checkpoint::Open("tests/golden/model/" + golden["base"].get<std::string>()));
    const auto learning = WeightsThatLearn(checkpoint->config(),
                                           {golden["layers"], golden["modules"], golden["extra"]});
    EXPECT_EQ(learning.ok(), !golden["learning"].is_null());
    if (!learning.ok()) continue;
    EXPECT_EQ(*learning, golden["learning"].get<std::set<std::string>>());
  }
}

TEST(FreezeTest, FrozenMatricesAreHeldInTheMatmulDtype) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open("tests/golden/model/gqa_tied"));
  TransformerOptions options{.matmul_dtype = at::kBFloat16};
  options.learning = *WeightsThatLearn(checkpoint->config(), {1, {"mlp"}, {}});
  ASSERT_OK_AND_ASSIGN(const auto model, Transformer::Load(checkpoint, options));
  for (const auto& parameter : model->parameters()) {
    const bool learns = options.learning->contains(parameter->name());
    EXPECT_EQ(parameter->trainable(), learns) << parameter->name();
    EXPECT_EQ(parameter->weight().scalar_type(),
              learns || parameter->weight().dim() == 1 ? at::kFloat : at::kBFloat16)
        << parameter->name();
  }
}

}  // namespace
}  // namespace moonring::model
