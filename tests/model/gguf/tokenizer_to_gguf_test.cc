#include "model/gguf/tokenizer_to_gguf.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/files/mapped_file.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_splitting_rules.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/gguf/sentencepiece_merges.h"
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

using Files = std::map<std::string, std::string>;

constexpr auto kInvalidFiles = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplementedFiles = absl::StatusCode::kUnimplemented;

std::string GoldenText(const std::string& name) {
  return ReadAll("tests/golden/tokenizer/" + name);
}

ModelConfig WithRows(int64_t rows) {
  ModelConfig config;
  config.vocab_size = rows;
  return config;
}

absl::StatusOr<std::shared_ptr<const GgufFile>> FileOf(const GgufMetadata& metadata) {
  const std::string header = GgufHeader(metadata, {});
  auto mapped = MappedFile::InMemory("x.gguf", header, header.size());
  if (!mapped.ok()) return mapped.status();
  return GgufFile::Of(*std::move(mapped));
}

absl::StatusOr<TokenizerMetadata> Written(const Files& files, int64_t rows) {
  return TokenizerToGguf(files, WithRows(rows), "x.gguf");
}

Files FilesOf(const std::string& name, const json& config) {
  return {{"tokenizer.json", GoldenText("tiny/" + name + ".tokenizer.json")},
          {"tokenizer_config.json", config.dump()}};
}

struct Kind {
  std::string name, model, pre;
  json config;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class RoundTripTest : public ::testing::TestWithParam<Kind> {};

// After a round trip through a .gguf file's metadata, the tokenizer gives the tokenizers library's
// ids of difficult strings.
TEST_P(RoundTripTest, EncodesAsTheLibraryDoes) {
  const Kind& kind = GetParam();
  const json golden = json::parse(GoldenText("tiny/" + kind.name + ".json"));
  const int64_t rows = golden["vocab_size"].get<int64_t>() + 5;
  ASSERT_OK_AND_ASSIGN(const TokenizerMetadata written,
                       Written(FilesOf(kind.name, kind.config), rows));
  EXPECT_THAT(written.notes, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto file, FileOf(written.metadata));
  EXPECT_EQ(*file->String("tokenizer.ggml.model"), kind.model);
  EXPECT_EQ(*file->String("tokenizer.ggml.pre"), kind.pre);
  EXPECT_EQ(file->Strings("tokenizer.ggml.tokens")->size(), static_cast<size_t>(rows));
  EXPECT_EQ(file->Strings("tokenizer.ggml.tokens")->back(), absl::StrCat("[PAD", rows - 1, "]"));
  EXPECT_EQ(file->Ints("tokenizer.ggml.token_type")->back(), 5);
  ASSERT_OK_AND_ASSIGN(const auto files, TokenizerFilesFromGguf(*file));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       data::Tokenizer::FromJson(files.at("tokenizer.json"),
                                                 files.at("tokenizer_config.json"), kind.name));
  const json strings = json::parse(GoldenText("strings.json"));
  ASSERT_GT(strings.size(), 50);
  for (size_t i = 0; i < strings.size(); ++i) {
    const auto ids = golden["ids"][i].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->Encode(strings[i].get<std::string>()), ids) << strings[i];
    EXPECT_EQ(tokenizer->Decode(ids), golden["decoded"][i].get<std::string>()) << strings[i];
    EXPECT_EQ(tokenizer->Decode(ids, /*skip_special=*/true),
              golden["decoded_skip_special"][i].get<std::string>())
        << strings[i];
  }
  const json before = json::parse(GoldenText("tiny/" + kind.name + ".tokenizer.json")),
             after = json::parse(files.at("tokenizer.json"));
  EXPECT_EQ(after["added_tokens"], before["added_tokens"]);
  EXPECT_EQ(after["model"]["merges"], before["model"]["merges"]);
  EXPECT_EQ(after["normalizer"], before["normalizer"]);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RoundTripTest,
    ::testing::Values(
        Kind{"smollm2", "gpt2", "smollm", {{"bos_token", "<|im_start|>"}}},
        Kind{"llama3", "gpt2", "llama-bpe", {{"bos_token", "<|begin_of_text|>"}}},
        Kind{"qwen3", "gpt2", "qwen2", {{"eos_token", "<|im_end|>"}}},
        Kind{"llama2", "llama", "default", {{"bos_token", "<s>"}, {"unk_token", "<unk>"}}},
        Kind{"gemma", "llama", "default", {{"bos_token", "<bos>"}, {"unk_token", "<unk>"}}}),
    [](const auto& info) { return info.param.name; });

TEST(TokenizerToGgufTest, NamesSpecialTokensAndTemplates) {
  Files files = FilesOf("llama3", {{"bos_token", {{"content", "<|begin_of_text|>"}}},
                                   {"eos_token", "<|end_of_text|>"},
                                   {"pad_token", "<|end_of_text|>"},
                                   {"chat_template", "{{ messages }}"}});
  files["generation_config.json"] = R"({"eos_token_id": [696, 699]})";
  ASSERT_OK_AND_ASSIGN(const TokenizerMetadata written, Written(files, 800));
  ASSERT_OK_AND_ASSIGN(const auto file, FileOf(written.metadata));
  EXPECT_EQ(*file->Int("tokenizer.ggml.bos_token_id"), 695);
  EXPECT_EQ(*file->Int("tokenizer.ggml.eos_token_id"), 696);
  EXPECT_EQ(*file->Int("tokenizer.ggml.eot_token_id"), 699);
  EXPECT_EQ(*file->Int("tokenizer.ggml.padding_token_id"), 696);
  EXPECT_FALSE(file->Has("tokenizer.ggml.unknown_token_id"));
  EXPECT_EQ(*file->Bool("tokenizer.ggml.add_bos_token"), true) << "its post-processor does";
  EXPECT_EQ(*file->String("tokenizer.chat_template"), "{{ messages }}");
  ASSERT_OK_AND_ASSIGN(const auto again, TokenizerFilesFromGguf(*file));
  EXPECT_EQ(json::parse(again.at("generation_config.json"))["eos_token_id"],
            json::parse("[696, 699]"));

  // A separate template file takes precedence over tokenizer_config.json, and add_bos_token over
  // the post-processor.
  files["chat_template.jinja"] = "{{ bos_token }}";
  files["tokenizer_config.json"] =
      R"({"bos_token": "<|begin_of_text|>", "add_bos_token": false, "chat_template": "x"})";
  ASSERT_OK_AND_ASSIGN(const TokenizerMetadata other, Written(files, 800));
  ASSERT_OK_AND_ASSIGN(const auto second, FileOf(other.metadata));
  EXPECT_EQ(*second->String("tokenizer.chat_template"), "{{ bos_token }}");
  EXPECT_EQ(*second->Bool("tokenizer.ggml.add_bos_token"), false);

  // Several templates, by name.
  files.erase("chat_template.jinja");
  files["tokenizer_config.json"] = R"({"chat_template": [{"name": "default", "template": "a"},
                                                          {"name": "tool_use", "template": "b"}]})";
  ASSERT_OK_AND_ASSIGN(const TokenizerMetadata several, Written(files, 800));
  ASSERT_OK_AND_ASSIGN(const auto third, FileOf(several.metadata));
  EXPECT_EQ(*third->String("tokenizer.chat_template"), "a");
  EXPECT_EQ(*third->String("tokenizer.chat_template.tool_use"), "b");
  EXPECT_THAT(*third->Strings("tokenizer.chat_templates"), ElementsAre("tool_use"));
}

// Tokens that a run added are kept: a word with a trained row, and a special token.
TEST(TokenizerToGgufTest, KeepsAddedTokens) {
  json tokenizer = json::parse(GoldenText("tiny/smollm2.tokenizer.json"));
  const int64_t first = 672;
  for (const auto& [text, special] : {std::pair("<tool>", false), std::pair("<call>", false)}) {
    tokenizer["added_tokens"].push_back({{"id", first + (text[1] == 'c' ? 1 : 0)},
                                         {"content", text},
                                         {"lstrip", text[1] == 'c'},
                                         {"normalized", true},
                                         {"special", special}});
  }
  const Files files = {{"tokenizer.json", tokenizer.dump()},
                       {"tokenizer_config.json", R"({"additional_special_tokens": ["<call>"]})"}};
  ASSERT_OK_AND_ASSIGN(const TokenizerMetadata written, Written(files, 704));
  ASSERT_EQ(written.notes.size(), 1);
  EXPECT_THAT(written.notes[0], HasSubstr("1 added tokens (<call>) strip adjacent spaces"));
  ASSERT_OK_AND_ASSIGN(const auto file, FileOf(written.metadata));
  const auto types = *file->Ints("tokenizer.ggml.token_type");
  EXPECT_EQ(types[first], 4);
  EXPECT_EQ(types[first + 1], 3) << "tokenizer_config.json calls it special";
  ASSERT_OK_AND_ASSIGN(const auto again, TokenizerFilesFromGguf(*file));
  ASSERT_OK_AND_ASSIGN(const auto encoder,
                       data::Tokenizer::FromJson(again.at("tokenizer.json"),
                                                 again.at("tokenizer_config.json"), "x"));
  EXPECT_THAT(encoder->Encode("<call><tool>"), ElementsAre(first + 1, first));
  EXPECT_THAT(
      Written(files, 673),
      StatusIs(kInvalidFiles, HasSubstr("the token '<call>' has id 673, and the embedding 673 "
                                        "rows")));
}

TEST(TokenizerToGgufTest, SaysWhereASpaceComes) {
  ASSERT_OK_AND_ASSIGN(const TokenizerMetadata written,
                       Written(FilesOf("mistral", json::object()), 700));
  EXPECT_THAT(written.notes,
              ElementsAre(HasSubstr("added tokens"),
                          HasSubstr("adds a space only at the beginning of a text")));
  ASSERT_OK_AND_ASSIGN(const auto file, FileOf(written.metadata));
  EXPECT_EQ(*file->Bool("tokenizer.ggml.add_space_prefix"), true);
}

TEST(TokenizerToGgufTest, RefusesWhatHasNoForm) {
  const auto refuses = [](const Files& files, const char* why) {
    EXPECT_THAT(Written(files, 2000),
                StatusIs(kUnimplementedFiles,
                         AllOf(HasSubstr("x.gguf: the tokenizer has no form in GGUF: "),
                               HasSubstr(why), HasSubstr("the weights alone can be written"))));
  };
  const json none = json::object();
  refuses(FilesOf("bert", none), "its model is of type WordPiece");
  refuses(FilesOf("t5", none), "its model is of type Unigram");
  refuses(FilesOf("unigram_letters", none), "its model is of type Unigram");
  refuses(FilesOf("gpt2", none), "its pre_tokenizer's stage {\"add_prefix_space\":true");
  refuses(FilesOf("metaspace", none), "its pre_tokenizer's stage {\"behavior\":\"MergedWithNext\"");
  refuses(FilesOf("odd", none), "its pre_tokenizer's stage {\"individual_digits\":true");
  refuses({{"tokenizer.model", "x"}}, "its tokenizer is tokenizer.model, without a tokenizer.json");
  json changed = json::parse(GoldenText("tiny/qwen3.tokenizer.json"));
  changed["normalizer"] = nullptr;
  refuses({{"tokenizer.json", changed.dump()}},
          "it cuts texts by none of the rules that have a "
          "name (smollm, starcoder, refact, gpt-2, ");
  changed = json::parse(GoldenText("tiny/llama2.tokenizer.json"));
  json& merges = changed["model"]["merges"];  // two merges of one piece, in reverse order
  const auto joined = [&](size_t i) {
    return merges[i][0].get<std::string>() + merges[i][1].get<std::string>();
  };
  size_t twin = 0;
  while (joined(twin) != joined(twin + 1)) ++twin;
  std::swap(merges[twin], merges[twin + 1]);
  refuses({{"tokenizer.json", changed.dump()}}, "no scores lead to its merges in their order");
  changed = json::parse(GoldenText("tiny/llama2.tokenizer.json"));
  changed["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"split", true}};
  changed["normalizer"] = nullptr;
  changed["model"]["vocab"]["a\u2581b"] = 1000;
  refuses({{"tokenizer.json", changed.dump()}}, "it splits texts at spaces and has '");
  EXPECT_THAT(
      Written({{"tokenizer.json", R"({"model": {"type": 5, "vocab": {}}})"}}, 10),
      StatusIs(kInvalidFiles, HasSubstr("x.gguf: the tokenizer has no form in GGUF: its files")));
  EXPECT_THAT(Written({{"tokenizer.json", "{"}}, 10),
              StatusIs(kInvalidFiles, HasSubstr("tokenizer.json"
                                                ": line 1")));
}

TEST(TokenizerToGgufTest, AModelWithoutOneHasIdsAlone) {
  ModelConfig config = WithRows(10);
  config.eos_token_ids = {3, 4};
  config.pad_token_id = 7;
  ASSERT_OK_AND_ASSIGN(const TokenizerMetadata written,
                       TokenizerToGguf({{"generation_config.json", "{}"}}, config, "x.gguf"));
  EXPECT_THAT(written.notes, ElementsAre(HasSubstr("the model has no tokenizer")));
  ASSERT_OK_AND_ASSIGN(const auto file, FileOf(written.metadata));
  EXPECT_EQ(*file->Int("tokenizer.ggml.eos_token_id"), 3);
  EXPECT_EQ(*file->Int("tokenizer.ggml.padding_token_id"), 7);
  EXPECT_FALSE(file->Has("tokenizer.ggml.bos_token_id"));
  EXPECT_THAT(*TokenizerFilesFromGguf(*file), IsEmpty());
}

// Every named splitting rule is recognized from its stages.
TEST(GgufSplittingRulesTest, AreFoundByTheirStages) {
  for (const char* name : {"smollm", "gpt-2", "llama-bpe", "dbrx", "qwen2", "qwen35", "tekken",
                           "gpt-4o", "deepseek-llm", "deepseek-coder", "deepseek-v3"}) {
    ASSERT_OK_AND_ASSIGN(const GgufSplittingRule* rule, FindGgufSplittingRule(name));
    const json tokenizer = {{"normalizer", rule->nfc ? json{{"type", "NFC"}} : json()},
                            {"pre_tokenizer", json(PreTokenizerOf(*rule))},
                            {"model", {{"ignore_merges", rule->ignore_merges}}}};
    ASSERT_OK_AND_ASSIGN(const GgufSplittingRule* found, GgufSplittingRuleOf(tokenizer));
    EXPECT_STREQ(found->name, name);
  }
  // GPT-4o's rule can also be written as one Split, as in its tokenizer.
  ASSERT_OK_AND_ASSIGN(const GgufSplittingRule* rule, FindGgufSplittingRule("gpt-4o"));
  json stages = PreTokenizerOf(*rule);
  stages["pretokenizers"][0]["behavior"] = "Removed";
  stages["pretokenizers"][0]["invert"] = true;
  ASSERT_OK_AND_ASSIGN(const GgufSplittingRule* found,
                       GgufSplittingRuleOf({{"pre_tokenizer", stages}, {"model", json::object()}}));
  EXPECT_STREQ(found->name, "gpt-4o");
}

TEST(SentencePieceScoresTest, LeadBackToTheMerges) {
  // "abc" has two merges, one before and one after that of "cd", so "abc" and "cd" have the same
  // score.
  const std::vector<SentencePiece> pieces = {{"a"},  {"b"},  {"c"},   {"d"},
                                             {"ab"}, {"bc"}, {"abc"}, {"cd"}};
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"a", "b"}, {"ab", "c"}, {"c", "d"}, {"a", "bc"}, {"b", "c"}};
  EXPECT_THAT(SentencePieceScores(pieces, merges), ElementsAre(-4, -4, -4, -4, -1, -3, -2, -2));
}

}  // namespace
}  // namespace moonring::model
