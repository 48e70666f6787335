// Training with tokens that are not in the model's vocabulary: the configuration, the files that
// are written, loading them, and generating from them. stages_test compares the numbers with
// LLaMA-Factory's (cases grown*); tests/lua/vocabulary_test checks the ids.

#include <cmath>
#include <string>
#include <vector>

#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr int64_t kRows = 672, kGrown = 704, kWidth = 48;  // of tests/golden/stages/model

class AddedTokensTest : public Workplace {
 protected:
  // Trains the golden model for one step; later arguments override earlier ones.
  std::vector<std::string> Train(const std::string& out, std::vector<std::string> more) const {
    std::vector<std::string> words = {"train",
                                      "model_name_or_path=" + model_,
                                      "dataset_dir=" + Runfile("tests/golden/stages/data"),
                                      "stage=sft",
                                      "dataset=talks",
                                      "template=chatml",
                                      "finetuning_type=full",
                                      "cutoff_len=96",
                                      "max_steps=1",
                                      "per_device_train_batch_size=2",
                                      "save_strategy=no",
                                      "report_to=none",
                                      "logging_steps=1",
                                      "output_dir=" + out};
    for (std::string& word : more) {
      const std::string key = word.substr(0, word.find('=') + 1);
      std::erase_if(words, [&](const std::string& each) { return each.rfind(key, 0) == 0; });
      words.push_back(std::move(word));
    }
    return words;
  }
  json TokenizerConfig(const std::string& folder) const {
    return ReadJson(Path(folder + "/tokenizer_config.json"));
  }
  StoredTensors Weights(const std::string& file) const { return ReadSafetensors(Path(file)); }

  const std::string model_ = Runfile("tests/golden/stages/model");
};

TEST_F(AddedTokensTest, RowsAreMadeForWhatTheDataHolds) {
  const CommandResult grown = Run(Train("grown", {"template=llama3"}));
  EXPECT_THAT(grown, Succeeds());
  EXPECT_THAT(grown.out + grown.err, HasSubstr("dataset: the model's vocabulary has 672 rows, none "
                                               "for '<|eot_id|>' (672): resize_vocab is true"));
  EXPECT_EQ(ReadJson(Path("grown/config.json")).at("vocab_size"), kGrown);
  EXPECT_EQ(ReadJson(Path("grown/config.json")).at("eos_token_id"), 672);
  ASSERT_THAT(Run(Train("asked", {"template=llama3", "resize_vocab=true"})), Succeeds());
  EXPECT_EQ(Weights("asked/model.safetensors").at(kEmbedding).values,
            Weights("grown/model.safetensors").at(kEmbedding).values);
  EXPECT_THAT(Run(Train("out", {"template=llama3", "resize_vocab=false"})),
              FailsWith(2, HasSubstr("dataset: the model's vocabulary has 672 rows, none for "
                                     "'<|eot_id|>' (672); resize_vocab: true makes them")));
  std::vector<std::string> words = Train("out", {"template=llama3", "out=rows.jsonl"});
  words[0] = "preprocess";
  EXPECT_THAT(Run(words), Succeeds());
  EXPECT_EQ(ReadJsonLines(Path("rows.jsonl")).front().at("input_ids").back(), 672);
}

// A stop word of the template that never occurs in the data gets no embedding row, and the saved
// config must not name an end-of-sequence id that the model lacks.
TEST_F(AddedTokensTest, WordsThatNoTextHoldsNeedNone) {
  Write("rare.lua", R"(return { like = "chatml", stop_words = { "<|im_end|>", "<rare>" } })");
  const CommandResult result = Run(Train("out", {"template=" + Path("rare.lua")}));
  EXPECT_THAT(result, Succeeds());
  EXPECT_THAT(result.out + result.err,
              HasSubstr("the template adds tokens that the model has no rows for: '<rare>' (672); "
                        "resize_vocab: true makes them"));
  EXPECT_EQ(ReadJson(Path("out/config.json")).at("vocab_size"), kRows);
}

TEST_F(AddedTokensTest, AFullModelCarriesThemOn) {
  ASSERT_THAT(Run(Train("out", {"template=llama3", "add_tokens=lantern",
                                "new_special_tokens=<note>, <end>"})),
              Succeeds());  // which turn resize_vocab on
  const json config = ReadJson(Path("out/config.json")), tokens = TokenizerConfig("out");
  EXPECT_EQ(config.at("vocab_size"), kGrown);
  EXPECT_EQ(config.at("eos_token_id"), 675);
  EXPECT_EQ(tokens.at("eos_token"), "<|eot_id|>");
  EXPECT_EQ(tokens.at("additional_special_tokens"), json({"<|eom_id|>"}));
  EXPECT_EQ(tokens.at("added_tokens_decoder").at("672").at("content"), "lantern");
  EXPECT_EQ(tokens.at("added_tokens_decoder").at("674").at("content"), "<end>");
  EXPECT_EQ(Weights("out/model.safetensors").at(kEmbedding).shape,
            (std::vector<int64_t>{kGrown, kWidth}));

  ASSERT_THAT(Run(Train("again", {"template=llama3", "model_name_or_path=out"})),
              Succeeds());  // no key: the folder says it all
  EXPECT_EQ(ReadJson(Path("again/config.json")).at("vocab_size"), kGrown);
  EXPECT_EQ(TokenizerConfig("again"), tokens);
  CommandOptions chat = Options({"chat", "out", "template=llama3", "max_new_tokens=3"});
  chat.input = "Hi <note>\n";
  EXPECT_THAT(RunMoonring(chat), Succeeds());
}

TEST_F(AddedTokensTest, AFileOfTokens) {
  Write("tokens.yaml", "\"<z>\": \"the last\"\n\"<a>\": \"the first\"\n");
  ASSERT_THAT(
      Run(Train("out", {"new_special_tokens_config=tokens.yaml", "add_special_tokens=<never>"})),
      Succeeds());
  EXPECT_EQ(TokenizerConfig("out").at("added_tokens_decoder").at("672").at("content"), "<z>");
  EXPECT_EQ(TokenizerConfig("out").at("added_tokens_decoder").at("673").at("content"), "<a>");
  EXPECT_FALSE(TokenizerConfig("out").at("added_tokens_decoder").contains("674"));
  EXPECT_THAT(Run(Train("none", {"new_special_tokens_config=tokens.yaml",
                                 "init_special_tokens=desc_init"})),
              FailsWith(2, HasSubstr("not supported yet: init_special_tokens: desc_init")));
  Write("list.yaml", "- <z>\n");
  EXPECT_THAT(
      Run(Train("none", {"new_special_tokens_config=list.yaml"})),
      FailsWith(2,
                HasSubstr("list.yaml: expected a line \"TOKEN\": \"description\" for each token")));
}

// The initial values of the new rows depend on the seed, not on the number of ranks.
TEST_F(AddedTokensTest, TheSameRowsOnTwoRanks) {
  const std::vector<std::string> keys = {"add_tokens=lantern", "learning_rate=0"};
  ASSERT_THAT(Run(Train("one", keys)), Succeeds());
  std::vector<std::string> two = Train("two", keys);
  two.push_back("sequence_parallel_size=2");
  ASSERT_THAT(Run(two), Succeeds());
  const StoredTensor one = Weights("one/model.safetensors").at(kEmbedding);
  EXPECT_EQ(one.values, Weights("two/model.safetensors").at(kEmbedding).values);
  std::vector<std::string> other = Train("other", keys);
  other.push_back("seed=1");
  ASSERT_THAT(Run(other), Succeeds());
  const StoredTensor reseeded = Weights("other/model.safetensors").at(kEmbedding);
  EXPECT_TRUE(
      std::equal(one.values.begin(), one.values.begin() + kRows * kWidth, reseeded.values.begin()));
  EXPECT_NE(one.values, reseeded.values);
}

// An adapter's folder contains the embedding and the head too. A program that loads the adapter
// must add the same tokens, as with LLaMA-Factory.
TEST_F(AddedTokensTest, AnAdapterTakesTheTablesWithIt) {
  const std::string tokens = "add_special_tokens=<note>";
  ASSERT_THAT(Run(Train("adapter", {"finetuning_type=lora", tokens})), Succeeds());
  EXPECT_THAT(ReadJson(Path("adapter/adapter_config.json"))
                  .at("modules_to_save")
                  .get<std::vector<std::string>>(),
              UnorderedElementsAre("embed_tokens", "lm_head"));
  const StoredTensors adapter = Weights("adapter/adapter_model.safetensors");
  for (const char* table :
       {"base_model.model.model.embed_tokens.weight", "base_model.model.lm_head.weight"}) {
    EXPECT_EQ(adapter.at(table).shape, (std::vector<int64_t>{kGrown, kWidth})) << table;
  }
  EXPECT_EQ(TokenizerConfig("adapter").at("added_tokens_decoder").at("672").at("content"),
            "<note>");

  EXPECT_THAT(Run(Train("on", {"finetuning_type=lora", "adapter_name_or_path=adapter", tokens})),
              Succeeds());
  EXPECT_THAT(
      Run(Train("off", {"finetuning_type=lora", "adapter_name_or_path=adapter"})),
      FailsWith(2, HasSubstr("embed_tokens.weight: shape [704, 48], this base requires [672, 48]; "
                             "where tokens were added when it was trained, add them again, with "
                             "resize_vocab: true")));
  ASSERT_THAT(Run({"export", "model_name_or_path=" + model_, "adapter_name_or_path=adapter",
                   "export_dir=merged", tokens}),
              Succeeds());
  EXPECT_EQ(ReadJson(Path("merged/config.json")).at("vocab_size"), kGrown);
  EXPECT_EQ(ReadJson(Path("merged/config.json")).at("tie_word_embeddings"), false);
  EXPECT_EQ(TokenizerConfig("merged").at("added_tokens_decoder").at("672").at("content"), "<note>");
  EXPECT_EQ(Weights("merged/model.safetensors").at(kEmbedding).values,
            adapter.at("base_model.model.model.embed_tokens.weight").values);
  CommandOptions chat = Options({"chat", model_, "adapter_name_or_path=adapter", "template=chatml",
                                 "max_new_tokens=3", tokens});
  chat.input = "Hi <note>\n";
  EXPECT_THAT(RunMoonring(chat), Succeeds());
  EXPECT_THAT(Run(Train("else", {"finetuning_type=lora", "additional_target=norm", tokens})),
              Succeeds());
  EXPECT_EQ(ReadJson(Path("else/adapter_config.json")).at("modules_to_save"), json({"norm"}));
}

// Policy and reference start with the same new rows, so the first loss is ln 2. (LLaMA-Factory
// initializes the two with different noise, or fails.)
TEST_F(AddedTokensTest, AReferenceGrowsAlike) {
  for (const std::string& reference : {std::string("resize_vocab=true"), "ref_model=" + model_}) {
    SCOPED_TRACE(reference);
    ASSERT_THAT(Run(Train("out", {"stage=dpo", "dataset=pairs", "template=llama3",
                                  "resize_vocab=true", "overwrite_output_dir=true", reference})),
                Succeeds());
    EXPECT_NEAR(ReadJsonLines(Path("out/trainer_log.jsonl")).front().at("loss").get<double>(),
                std::log(2.0), 1e-6);
  }
}

}  // namespace
}  // namespace moonring::testing
