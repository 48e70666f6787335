#include "model/checkpoint/vocabulary_growth.h"

#include <cmath>
#include <memory>
#include <string>

#include "ATen/ATen.h"
#include "ATen/Parallel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/adapter.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/save_folder.h"
#include "model/transformer.h"
#include "nlohmann/json.hpp"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::IsOk;
using ::moonring::testing::ReadAll;
using ::moonring::testing::ScratchFolder;
using ::nlohmann::json;
using ::testing::ElementsAre;

constexpr uint64_t kSeed = 7;
constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

std::shared_ptr<Checkpoint> Open(const std::string& name) {
  return *Checkpoint::Open("tests/golden/model/" + name);
}

TEST(VocabularyGrowthTest, HeightsAreMultiplesOf64) {
  EXPECT_EQ(GrownHeight(1), 64);
  EXPECT_EQ(GrownHeight(64), 64);
  EXPECT_EQ(GrownHeight(49153), 49216);
}

// New rows are distributed around the mean of the old rows. For n new rows of D columns and
// deviation s = 1 / sqrt(D): each column's mean equals that of the old rows within 5 s / sqrt(n),
// and the deviation of all n D numbers is s within 5 / sqrt(2 n D).
TEST(VocabularyGrowthTest, NewRowsAreAroundTheMean) {
  const int64_t height = 1500, width = 48, added = 4000;
  const at::Tensor table = at::arange(height * width, at::kDouble)
                               .mul(0.37)
                               .sin()
                               .add(0.25)
                               .view({height, width})
                               .to(at::kFloat);
  const at::Tensor grown = WithNewRows(table, height + added, kSeed, kEmbedding);
  EXPECT_TRUE(at::equal(grown.narrow(0, 0, height), table));
  const at::Tensor noise =
      (grown.narrow(0, height, added).to(at::kDouble) - table.to(at::kDouble).mean(0)) *
      std::sqrt(double(width));
  EXPECT_LT(noise.mean(0).abs().max().item<double>(), 5.0 / std::sqrt(double(added)));
  EXPECT_NEAR(noise.square().mean().sqrt().item<double>(), 1.0,
              5.0 / std::sqrt(2.0 * added * width));
  EXPECT_GT(noise.abs().max().item<double>(),
            3.5);  // 192,000 normal values exceed 4 deviations
  EXPECT_NEAR(noise.pow(4).mean().item<double>(), 3.0, 0.1);
}

TEST(VocabularyGrowthTest, TheSameBitsAnywhere) {
  const at::Tensor table = at::arange(2500 * 33, at::kFloat).mul(0.11).cos().view({2500, 33});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = WithNewRows(table, 2560, kSeed, kEmbedding);
  at::set_num_threads(4);
  EXPECT_TRUE(at::equal(WithNewRows(table, 2560, kSeed, kEmbedding), one));
  at::set_num_threads(threads);
  EXPECT_FALSE(at::equal(WithNewRows(table, 2560, kSeed + 1, kEmbedding), one));
  EXPECT_FALSE(at::equal(WithNewRows(table, 2560, kSeed, kHead), one));
  EXPECT_EQ(WithNewRows(table.to(at::kBFloat16), 2560, kSeed, kEmbedding).scalar_type(),
            at::kBFloat16);
  EXPECT_EQ(WithNewRows(table, 2500, kSeed, kEmbedding).data_ptr(), table.data_ptr())
      << "nothing to grow, nothing copied";
}

TEST(VocabularyGrowthTest, ACheckpointGrows) {
  const auto tied = Open("gqa_tied");  // 97 rows
  tied->GrowVocabulary(97, kSeed);
  EXPECT_EQ(tied->config().vocab_size, 97) << "spare rows, or just enough: nothing grows";
  tied->GrowVocabulary(98, kSeed);
  EXPECT_EQ(tied->config().vocab_size, 128);
  EXPECT_EQ(json::parse(tied->config().json)["vocab_size"], 128);
  const at::Tensor embedding = *tied->Load(kEmbedding, at::kFloat);
  EXPECT_EQ(embedding.sizes(), at::IntArrayRef({128, 32}));
  EXPECT_TRUE(
      at::equal(embedding.narrow(0, 0, 97), *Open("gqa_tied")->Load(kEmbedding, at::kFloat)));
  EXPECT_TRUE(at::equal(embedding, *tied->Load(kEmbedding, at::kFloat)));

  const auto untied = Open("mha_untied");  // 128 rows
  untied->GrowVocabulary(150, kSeed);
  const at::Tensor rows = untied->Load(kEmbedding, at::kFloat)->narrow(0, 128, 64),
                   head = untied->Load(kHead, at::kFloat)->narrow(0, 128, 64);
  EXPECT_FALSE(at::allclose(rows, head)) << "each has a noise of its own";
  EXPECT_EQ(untied->Load("model.norm.weight", at::kFloat)->size(0), 32);
}

// Gemma 4's second embedding, whose size has its own key, also gets a row for each new token.
TEST(VocabularyGrowthTest, ASecondEmbeddingGrowsToo) {
  constexpr char kTable[] = "model.embed_tokens_per_layer.weight";
  const std::string golden = "tests/golden/families/gemma4_shared";
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(golden));  // 48 rows
  ASSERT_OK_AND_ASSIGN(const at::Tensor before, checkpoint->Load(kTable, at::kFloat));
  checkpoint->GrowVocabulary(70, kSeed);
  EXPECT_EQ(checkpoint->config().vocab_size, 128);
  EXPECT_EQ(checkpoint->config().layer_inputs.vocab_size, 128);
  EXPECT_EQ(json::parse(checkpoint->config().json)["vocab_size_per_layer_input"], 128);
  ASSERT_OK_AND_ASSIGN(const at::Tensor grown, checkpoint->Load(kTable, at::kFloat));
  EXPECT_EQ(grown.sizes(), at::IntArrayRef({128, before.size(1)}));
  EXPECT_TRUE(at::equal(grown.narrow(0, 0, before.size(0)), before));

  const ScratchFolder folder;
  ASSERT_OK_AND_ASSIGN(const auto model, Transformer::Load(checkpoint, {.frozen = true}));
  ASSERT_OK(SaveFolder(folder.path(), model->config(), model->parameters(), at::kFloat, {},
                       int64_t{1} << 30));
  ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder.path()));
  EXPECT_TRUE(at::equal(*again->Load(kTable, at::kFloat), grown));
}

// The saved model has the new size. With full fine-tuning, so has the saved config. An adapter that
// trains embedding and head in full saves them with the new rows, tied or not.
TEST(VocabularyGrowthTest, WhatIsSavedHasTheNewRows) {
  for (const char* name : {"gqa_tied", "mha_untied"}) {
    const ScratchFolder folder;
    const auto checkpoint = Open(name);
    checkpoint->GrowVocabulary(140, kSeed);
    ASSERT_OK_AND_ASSIGN(const auto model, Transformer::Load(checkpoint, {.frozen = true}));
    EXPECT_EQ(model->head()->weight().size(0), 192);
    ASSERT_OK(SaveFolder(folder.path(), model->config(), model->parameters(), at::kFloat, {},
                         int64_t{1} << 30));
    ASSERT_OK_AND_ASSIGN(const auto again, Checkpoint::Open(folder.path()));
    EXPECT_EQ(again->config().vocab_size, 192);
    for (const std::string& weight : checkpoint->names())
      EXPECT_TRUE(
          at::equal(*again->Load(weight, at::kFloat), *checkpoint->Load(weight, at::kFloat)))
          << weight;

    ASSERT_OK_AND_ASSIGN(const auto adapter,
                         Adapter::Create(model->config(), {.saved = {"embed_tokens", "lm_head"}},
                                         model->parameters(), kSeed, at::kFloat));
    EXPECT_EQ(adapter->saved.at(kEmbedding)->weight().size(0), 192);
    EXPECT_EQ(adapter->saved.at(kHead)->weight().size(0), 192);
  }
}

TEST(VocabularyGrowthTest, CompanionsAndTheEnd) {
  const auto checkpoint = Open("gqa_tied");
  checkpoint->ReplaceCompanions(
      {{"generation_config.json", R"({"eos_token_id": 2, "top_k": 5})"}, {"tokenizer.json", "{}"}});
  ASSERT_OK(checkpoint->EndWith(96));
  EXPECT_THAT(checkpoint->config().eos_token_ids, ElementsAre(96));
  EXPECT_EQ(json::parse(checkpoint->config().json)["eos_token_id"], 96);
  EXPECT_EQ(json::parse(checkpoint->companions().at("generation_config.json")),
            json::parse(R"({"eos_token_id": [96, 2], "top_k": 5})"));
  EXPECT_EQ(checkpoint->companions().at("tokenizer.json"), "{}");
}

}  // namespace
}  // namespace moonring::model
