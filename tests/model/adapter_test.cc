#include "model/adapter.h"

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "model/digest.h"
#include "model/transformer.h"
#include "tests/model/adapted_models.h"
#include "tests/testing/all_close.h"
#include "tests/testing/finite_differences.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::RelativeError;
using ::moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kAll = {"down_proj", "gate_proj", "k_proj", "o_proj",
                                       "q_proj",    "up_proj",   "v_proj"};

TEST(AdapterPlanTest, TargetsByName) {
  const ModelConfig config = SmallConfig();
  ASSERT_OK_AND_ASSIGN(const AdapterPlan all, PlanAdapter(config, {}));
  EXPECT_EQ(all.targets, kAll);
  EXPECT_EQ(all.maps.size(), 14u);
  ASSERT_OK_AND_ASSIGN(const AdapterPlan two,
                       PlanAdapter(config, {.targets = {"v_proj", "layers.1.self_attn.q_proj"}}));
  std::vector<std::string> modules;
  for (const auto& map : two.maps) modules.push_back(map.module);
  EXPECT_THAT(modules,
              ElementsAre("model.layers.0.self_attn.v_proj", "model.layers.1.self_attn.q_proj",
                          "model.layers.1.self_attn.v_proj"));
  EXPECT_EQ(two.maps[0].out, 8);
  EXPECT_EQ(two.maps[0].in, 16);
}

TEST(AdapterPlanTest, WholeModules) {
  const auto saved = [](const std::vector<std::string>& names) {
    const absl::StatusOr<AdapterPlan> plan =
        PlanAdapter(SmallConfig(true, 1), {.targets = {"q_proj"}, .saved = names});
    EXPECT_OK(plan);
    std::vector<std::string> weights;
    for (const WeightShape& weight : plan->saved) weights.push_back(weight.name);
    return weights;
  };
  EXPECT_THAT(saved({"embed_tokens", "lm_head"}),
              ElementsAre("model.embed_tokens.weight", "lm_head.weight"));
  EXPECT_THAT(saved({"norm"}),
              ElementsAre("model.layers.0.input_layernorm.weight",
                          "model.layers.0.post_attention_layernorm.weight", "model.norm.weight"));
  EXPECT_THAT(saved({"mlp"}), ElementsAre("model.layers.0.mlp.gate_proj.weight",
                                          "model.layers.0.mlp.up_proj.weight",
                                          "model.layers.0.mlp.down_proj.weight"));
  ASSERT_OK_AND_ASSIGN(const AdapterPlan plan, PlanAdapter(SmallConfig(), {.saved = {"mlp"}}));
  EXPECT_EQ(plan.maps.size(), 8u);
}

TEST(AdapterPlanTest, Refuses) {
  const ModelConfig config = SmallConfig();
  const auto refused = [&](const AdapterOptions& options, const std::string& words) {
    EXPECT_THAT(PlanAdapter(config, options),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
  };
  refused({.targets = {"q_pro"}},
          "lora_target: no linear module is called 'q_pro', there are q_proj, k_proj, v_proj, "
          "o_proj, gate_proj, up_proj, down_proj");
  refused({.targets = {"q_proj", "proj"}}, "'proj'");
  refused({.dora = true, .targets = {"lm_head"}},
          "lora_target: lm_head takes plain LoRA alone, got DoRA (use_dora)");
  refused({.targets = {"lm_head"}, .principal = PrincipalOptions{}}, "alone, got PiSSA");
  refused({.targets = {"lm_head"}, .rotation = RotationOptions{}}, "oft_target: lm_head takes");
  refused({.targets = {"q_proj", "lm_head"}, .ties_head = true}, "got ensure_weight_tying");
  refused({.targets = {"embed_tokens"}}, "additional_target: embed_tokens trains it whole");
  refused({.saved = {"wte"}},
          "additional_target: no module is called 'wte', there are down_proj, embed_tokens");
  refused({.targets = {"q_proj"}, .saved = {"self_attn"}}, "none is left");
  refused({.rank = 0}, "lora_rank: 0");
  refused({.alpha = -1}, "lora_alpha: -1");
  refused({.dropout = 1.0}, "lora_dropout: 1");
  refused({.dropout = 0.5, .principal = PrincipalOptions{}}, "lora_dropout: 0.5, expected 0");
  refused({.principal = PrincipalOptions{-2}}, "pissa_iter: -2");
  refused({.rotation = RotationOptions{.blocks = 2}},
          "oft_rank: 2, oft_block_size: 32, expected one");
  refused({.rotation = RotationOptions{.block_size = 0}}, "oft_rank: 0, oft_block_size: 0");
  refused({.targets = {"q_pro"}, .rotation = RotationOptions{}}, "oft_target: no linear module");
  refused({.rotation = RotationOptions{.blocks = 16, .block_size = 0}},
          "of the 16 inputs of model.layers.0.self_attn.q_proj blocks of 1 would be made");
}

// The number and size of OFT's blocks are changed to divisors of the inputs as by
// adjust_oft_parameters in PEFT 0.18.1. Each case: inputs, requested numbers, resulting numbers.
TEST(AdapterPlanTest, BlocksDivideTheInputsAsPeftHasIt) {
  for (const auto& [inputs, wanted, taken] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{16, 32, 16},
                                                          {24, 32, 24},
                                                          {48, 32, 24},
                                                          {64, 32, 32},
                                                          {576, 32, 32},
                                                          {1536, 32, 32},
                                                          {100, 32, 25},
                                                          {30, 7, 6},
                                                          {30, 8, 6},
                                                          {7, 3, 1},
                                                          {13, 6, 1},
                                                          {12, 8, 6},
                                                          {18, 4, 3},
                                                          {896, 256, 224},
                                                          {4864, 100, 76}}) {
    EXPECT_EQ(BlockSizeOf({0, wanted}, inputs), taken) << inputs << ", " << wanted;
    EXPECT_EQ(BlockSizeOf({wanted, 0}, inputs), inputs / taken) << inputs << ", " << wanted;
  }
  ASSERT_OK_AND_ASSIGN(const AdapterPlan plan,
                       PlanAdapter(SmallConfig(), {.rotation = RotationOptions{}}));
  EXPECT_EQ(plan.maps[0].block_size, 16);
  EXPECT_EQ(plan.maps[6].block_size, 24);
}

// The head is adapted if it is named, tied or not, and never by "all"; its embedding stays.
TEST(AdapterPlanTest, TheHeadByName) {
  for (const bool tied : {true, false}) {
    const ModelConfig config = SmallConfig(tied);
    ASSERT_OK_AND_ASSIGN(const AdapterPlan plan,
                         PlanAdapter(config, {.rank = 3, .targets = {"lm_head", "o_proj"}}));
    ASSERT_EQ(plan.maps.size(), 3u);
    EXPECT_EQ(plan.maps[2].module, "lm_head");
    EXPECT_EQ(plan.maps[2].out, config.vocab_size);
    EXPECT_EQ(plan.maps[2].in, config.hidden_size);
    Models models = MakeModels(config, {.rank = 3, .targets = {"lm_head", "o_proj"}});
    EXPECT_EQ(models.adapter->parameters.back()->name(), "base_model.model.lm_head.lora_B.weight");
    EXPECT_EQ(models.adapter->Unties(config), tied);
    EXPECT_EQ(models.adapted->head(), models.base->head());
    ASSERT_NE(models.adapted->head_map(), nullptr);
    EXPECT_EQ(models.base->head_map(), nullptr);
  }
}

TEST(AdapterTest, FirstValues) {
  const ModelConfig config = SmallConfig();
  const Models models = MakeModels(config, {.rank = 64, .dora = true, .saved = {"embed_tokens"}},
                                   at::kFloat, Recompute::kBlock, /*moved=*/false);
  const auto& map = models.adapter->maps.at("model.layers.1.mlp.down_proj");
  EXPECT_EQ(map.a->name(), "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight");
  const double bound = 1 / std::sqrt(24.0);
  EXPECT_LE(map.a->weight().abs().max().item<double>(), bound);
  EXPECT_NEAR(map.a->weight().std().item<double>(), bound / std::sqrt(3.0), 0.05 * bound);
  EXPECT_EQ(map.b->weight().abs().max().item<double>(), 0.0);
  const auto down = models.base->parameters()[18];
  ASSERT_EQ(down->name(), "model.layers.1.mlp.down_proj.weight");
  EXPECT_TRUE(RelativeError(map.magnitude->weight(), down->weight().norm(2, {1}), 1e-6));
  EXPECT_TRUE(BitEqual(models.adapter->saved.at("model.embed_tokens.weight")->weight(),
                       models.base->parameters()[0]->weight()));
  const Models again =
      MakeModels(config, {.rank = 64}, at::kFloat, Recompute::kBlock, /*moved=*/false);
  EXPECT_TRUE(BitEqual(again.adapter->maps.at("model.layers.1.mlp.down_proj").a->weight(),
                       map.a->weight()));
}

TEST(AdapterTest, ANewOneIsTheBase) {
  const ModelConfig config = SmallConfig();
  const Stream stream = RandomStream({9, 4}, config.vocab_size);
  Models lora = MakeModels(config, {.saved = {"embed_tokens"}}, at::kFloat, Recompute::kBlock,
                           /*moved=*/false);
  EXPECT_TRUE(BitEqual(HiddenOf(*lora.adapted, stream), HiddenOf(*lora.base, stream)));
  // A new DoRA adapter changes the result only by rounding, in its factor m / n.
  Models dora = MakeModels(config, {.dora = true}, at::kDouble, Recompute::kBlock, /*moved=*/false);
  EXPECT_TRUE(RelativeError(HiddenOf(*dora.adapted, stream), HiddenOf(*dora.base, stream), 1e-14));
  for (const int64_t terms : {0, 5}) {
    Models oft = MakeModels(config, {.rotation = RotationOptions{.terms = terms}}, at::kFloat,
                            Recompute::kBlock, /*moved=*/false);
    EXPECT_TRUE(BitEqual(HiddenOf(*oft.adapted, stream), HiddenOf(*oft.base, stream)));
  }
  // A new PiSSA adapter changes the result only by rounding, since its product is subtracted from
  // the base.
  Models pissa = MakeModels(config, {.principal = PrincipalOptions{}}, at::kDouble,
                            Recompute::kBlock, /*moved=*/false);
  EXPECT_TRUE(
      RelativeError(HiddenOf(*pissa.adapted, stream), HiddenOf(*pissa.base, stream), 1e-13));
}

TEST(AdapterTest, TheBaseStaysAsItIs) {
  const ModelConfig config = SmallConfig();
  const Stream stream = RandomStream({9, 4}, config.vocab_size);
  Models models = MakeModels(config, {.saved = {"embed_tokens", "norm", "lm_head"}});
  auto alone = *Transformer::Create(config, RandomWeights(config, at::kDouble),
                                    {.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble});
  const std::string digest = Digest(models.base->parameters());
  Loss(*models.adapted, stream, nullptr, /*backward=*/true);
  EXPECT_TRUE(BitEqual(HiddenOf(*models.base, stream), HiddenOf(*alone, stream)));
  EXPECT_EQ(Digest(models.base->parameters()), digest);
  for (const auto& parameter : models.base->parameters())
    EXPECT_FALSE(parameter->gradient().defined()) << parameter->name();
  EXPECT_EQ(models.adapted->head()->name(), "base_model.model.lm_head.weight");
  EXPECT_EQ(models.base->head()->name(), "model.embed_tokens.weight");
  EXPECT_FALSE(BitEqual(HiddenOf(*models.adapted, stream), HiddenOf(*models.base, stream)));
}

class AdapterKindTest : public ::testing::TestWithParam<Kind> {};

// Gradients equal finite differences for every element of every trainable weight, except DoRA's A
// and B: in their backward, the norm counts as a constant (projection_test.cc).
TEST_P(AdapterKindTest, GradientsByFiniteDifferences) {
  const ModelConfig config = SmallConfig();
  const Stream stream = RandomStream({5, 1, 3}, config.vocab_size);
  const Noise noise = NoiseOf(stream);
  Models models = MakeModels(config, GetParam().options);
  const Noise* given = GetParam().noise ? &noise : nullptr;
  Loss(*models.adapted, stream, given, /*backward=*/true);
  for (const auto& parameter : models.adapter->parameters) {
    if (GetParam().options.dora && parameter->name().find(".lora_A") != std::string::npos) continue;
    if (GetParam().options.dora && parameter->name().find(".lora_B") != std::string::npos) continue;
    const at::Tensor wanted = FiniteDifferences(
        [&] { return Loss(*models.adapted, stream, given, false); }, parameter->weight());
    ASSERT_TRUE(parameter->gradient().defined()) << parameter->name();
    EXPECT_TRUE(RelativeError(parameter->gradient(), wanted, 10 * kDifferenceBound))
        << parameter->name();
  }
}

TEST_P(AdapterKindTest, RecomputeChangesNoBit) {
  const ModelConfig config = SmallConfig();
  const Stream stream = RandomStream({20, 1, 9}, config.vocab_size);
  const Noise noise = NoiseOf(stream);
  Models keeping = MakeModels(config, GetParam().options, at::kFloat, Recompute::kNone);
  const double loss = Loss(*keeping.adapted, stream, &noise, true);
  for (const Recompute recompute : {Recompute::kBlock, Recompute::kSelective}) {
    Models models = MakeModels(config, GetParam().options, at::kFloat, recompute);
    EXPECT_EQ(Loss(*models.adapted, stream, &noise, true), loss);
    for (size_t i = 0; i < models.adapter->parameters.size(); ++i) {
      EXPECT_TRUE(BitEqual(models.adapter->parameters[i]->gradient(),
                           keeping.adapter->parameters[i]->gradient()))
          << models.adapter->parameters[i]->name();
    }
  }
}

// A packed stream over 2 and 4 ranks, one of them without rows, by several strategies: the hidden
// states, and the gradients summed over ranks, equal those of one rank.
TEST_P(AdapterKindTest, RanksTogetherAreOne) {
  const ModelConfig config = SmallConfig();
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{200, 1, 70, 9}, std::vector<int64_t>{5, 3}}) {
    const Stream stream = RandomStream(lengths, config.vocab_size);
    const Noise noise = NoiseOf(stream);
    Models one = MakeModels(config, GetParam().options);
    at::manual_seed(9);
    const at::Tensor weights = at::randn({stream.ids.size(0), config.hidden_size}, at::kDouble);
    const at::Tensor hidden = HiddenOf(*one.adapted, stream, &noise);
    (hidden * weights).sum().backward();
    for (const std::string strategy : {"zigzag-ring", "ulysses", "all-gather", "usp"}) {
      for (const int ranks : {2, 4}) {
        SCOPED_TRACE(strategy + " on " + std::to_string(ranks) + " ranks, " +
                     std::to_string(lengths.size()) + " documents");
        std::vector<at::Tensor> locals(ranks);
        std::vector<std::vector<at::Tensor>> gradients(ranks);
        std::vector<Models> models;
        for (int rank = 0; rank < ranks; ++rank)
          models.push_back(MakeModels(config, GetParam().options));
        std::shared_ptr<const comm::Layout> joined;
        testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
          const int rank = world->rank();
          ASSERT_OK_AND_ASSIGN(
              const auto attention,
              attention::CreateAttention({{.name = strategy}, world->communicator()}));
          ASSERT_OK_AND_ASSIGN(
              const auto layout,
              comm::Layout::Create(lengths, attention->Divide(lengths), attention::CausalTileArea));
          ASSERT_OK_AND_ASSIGN(std::shared_ptr<attention::PlannedAttention> plan,
                               attention->Plan(layout));
          const auto cut = [&](const at::Tensor& tensor) { return layout->Cut(tensor, rank); };
          const Noise local{noise.seed, noise.step, cut(noise.identity_T), noise.neftune_alpha,
                            cut(noise.lengths_T)};
          const at::Tensor mine =
              models[rank]
                  .adapted->Forward(cut(stream.ids), cut(stream.positions), plan, {.noise = local})
                  .hidden_TD;
          (mine * cut(weights)).sum().backward();
          locals[rank] = mine.detach();
          if (rank == 0) joined = layout;
        });
        ASSERT_NE(joined, nullptr);
        EXPECT_TRUE(RelativeError(joined->Join(locals), hidden, 1e-10));
        for (size_t i = 0; i < one.adapter->parameters.size(); ++i) {
          if (!one.adapter->parameters[i]->gradient().defined())
            continue;  // the head, which is not used
          at::Tensor sum = at::zeros_like(one.adapter->parameters[i]->weight());
          for (const Models& model : models) {
            if (model.adapter->parameters[i]->gradient().defined())
              sum += model.adapter->parameters[i]->gradient();
          }
          EXPECT_TRUE(RelativeError(sum, one.adapter->parameters[i]->gradient(), 1e-10))
              << one.adapter->parameters[i]->name();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, AdapterKindTest, ::testing::ValuesIn(Kinds()), NameOf);

TEST(AdapterTest, NoiseActsOnlyWhereGivenAndByItsKey) {
  const ModelConfig config = SmallConfig();
  const Stream stream = RandomStream({9, 4}, config.vocab_size);
  Models models = MakeModels(config, {.dropout = 0.5});
  Noise noise = NoiseOf(stream);
  const at::Tensor plain = HiddenOf(*models.adapted, stream),
                   noisy = HiddenOf(*models.adapted, stream, &noise);
  EXPECT_FALSE(BitEqual(plain, noisy));
  EXPECT_TRUE(BitEqual(noisy, HiddenOf(*models.adapted, stream, &noise)));
  noise.step += 1;
  EXPECT_FALSE(BitEqual(noisy, HiddenOf(*models.adapted, stream, &noise)));
  // With the documents in another order, each token has the same noise.
  noise = NoiseOf(stream);
  const at::Tensor order = at::cat({at::arange(9, 13, at::kLong), at::arange(9, at::kLong)});
  const Stream turned{{4, 9},
                      stream.ids.index_select(0, order),
                      stream.positions.index_select(0, order),
                      stream.identity.index_select(0, order),
                      stream.document_lengths.index_select(0, order)};
  const Noise turned_noise = NoiseOf(turned);
  EXPECT_TRUE(RelativeError(HiddenOf(*models.adapted, turned, &turned_noise),
                            noisy.index_select(0, order), 1e-12));
}

TEST(AdapterTest, NeftuneIsUniformInItsRange) {
  ModelConfig config = SmallConfig();
  config.layers = 0;  // only the embedding and the norm
  config.layer_rules.clear();
  config.hidden_size = 64;
  auto model = *Transformer::Create(config, RandomWeights(config, at::kDouble),
                                    {.weight_dtype = at::kDouble, .matmul_dtype = at::kDouble});
  for (const auto& parameter : model->parameters())
    parameter->weight().fill_(parameter->name() == "model.norm.weight" ? 1.0 : 1e4);
  const Stream stream = RandomStream({100, 25}, config.vocab_size);
  const Noise noise{1, 2, stream.identity, 5.0, stream.document_lengths};
  // For a row of 1e4 plus small noise, norm(x) - norm(1e4) is (the noise minus its mean) / 1e4.
  const at::Tensor change = (HiddenOf(*model, stream, &noise) - HiddenOf(*model, stream)) * 1e4;
  const double first = 5 / std::sqrt(100.0 * 64), second = 5 / std::sqrt(25.0 * 64);
  EXPECT_NEAR(change.narrow(0, 0, 100).std().item<double>(), first / std::sqrt(3.0), 0.03 * first);
  EXPECT_NEAR(change.narrow(0, 100, 25).std().item<double>(), second / std::sqrt(3.0),
              0.05 * second);
  EXPECT_LT(change.narrow(0, 0, 100).abs().max().item<double>(), 1.5 * first);
  const Noise without{1, 2, stream.identity, 5.0, {}};
  EXPECT_THROW(HiddenOf(*model, stream, &without), c10::Error);
}

TEST(AdapterTest, TheBaseMustBeFrozen) {
  const ModelConfig config = SmallConfig();
  const auto base = *Transformer::Create(config, RandomWeights(config, at::kFloat), {});
  const auto adapter = *Adapter::Create(config, {}, base->parameters(), 0, at::kFloat);
  EXPECT_THAT(Transformer::Adapt(*base, adapter),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("must be frozen, model.embed_tokens.weight is trainable")));
  const Models models = MakeModels(config, {});
  EXPECT_THAT(Transformer::Adapt(*models.adapted, adapter),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has one already")));
}

TEST(DigestTest, SaysWhatDiffers) {
  const base::Parameters weights = RandomWeights(SmallConfig(), at::kFloat);
  const std::string digest = Digest(weights);
  EXPECT_EQ(digest.size(), 40u);
  EXPECT_EQ(digest, Digest(RandomWeights(SmallConfig(), at::kFloat)));
  EXPECT_NE(digest, Digest(RandomWeights(SmallConfig(), at::kDouble)));
  EXPECT_NE(digest, Digest(weights, "besides"));
  weights[3]->weight()[0][0] += 1e-6;
  EXPECT_NE(digest, Digest(weights));
}

}  // namespace
}  // namespace moonring::model
