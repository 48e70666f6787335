#include "data/text/tokenizer_files.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "data/text/json/json_splice.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::ReadRunfile;
using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Tiny(const std::string& name) {
  return ReadRunfile("tests/golden/tokenizer/tiny/" + name);
}

std::shared_ptr<const Tokenizer> Open(const TokenizerFiles& files,
                                      const TokenizerOptions& options = {}) {
  absl::StatusOr<std::shared_ptr<const Tokenizer>> made = OpenTokenizer(files, "folder", options);
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

TokenizerFiles With(TokenizerFiles files, const TokenizerFiles& changed) {
  for (const auto& [name, contents] : changed) files[name] = contents;
  return files;
}

TEST(JsonSplice, OneFieldChanges) {
  EXPECT_EQ(WithField(R"({"a": "}\"]", "b" : [1, {"b": 2}] , "c": 3})", "b", "[]"),
            R"({"a": "}\"]", "b" : [] , "c": 3})");
  EXPECT_EQ(WithField("{\"a\": 1,\n \"b\": 2\n}", "b", "{}"), "{\"a\": 1,\n \"b\": {}\n}");
  EXPECT_EQ(WithField(R"({"x": {"b": 1}})", "b", "7"), R"({"b": 7, "x": {"b": 1}})")
      << "of the object itself";
  EXPECT_EQ(WithField(" { } ", "b", "7"), " {\"b\": 7 } ");
}

// After new tokens are written, the vocabulary's bytes are unchanged, and reading the files gives
// the same ids, flags and names.
TEST(TokenizerFiles, NewTokensAreWritten) {
  const TokenizerFiles files = {
      {"tokenizer.json", Tiny("smollm2.tokenizer.json")},
      {"tokenizer_config.json", R"({"eos_token": "<|im_end|>", "zeta": 1})"}};
  EXPECT_THAT(*ChangedFiles(files, *Open(files)), IsEmpty());
  const auto tokenizer = Tokenizer::WithStopWords(
      Open(files, {.add_tokens = {"<a>"}, .add_special_tokens = {"<b>"}}), "<end>", {"<more>"});
  ASSERT_OK_AND_ASSIGN(const TokenizerFiles changed, ChangedFiles(files, *tokenizer));
  const json config = json::parse(changed.at("tokenizer_config.json"));
  EXPECT_EQ(config["zeta"], 1);
  EXPECT_EQ(config["eos_token"], "<end>");
  EXPECT_EQ(config["pad_token"], "<end>");
  EXPECT_EQ(config["additional_special_tokens"], json({"<more>"}));
  EXPECT_EQ(
      config["added_tokens_decoder"]["672"],
      json::parse(R"({"content": "<a>", "lstrip": false, "normalized": true, "rstrip": false, )"
                  R"("single_word": false, "special": false})"));
  EXPECT_EQ(config["added_tokens_decoder"]["674"]["special"], true);
  const json before = json::parse(files.at("tokenizer.json")),
             after = json::parse(changed.at("tokenizer.json"));
  EXPECT_EQ(after["model"], before["model"]);
  EXPECT_EQ(after["added_tokens"].size(), before["added_tokens"].size() + 4);
  EXPECT_EQ(after["added_tokens"].back()["id"], 675);
  const std::string& was = files.at("tokenizer.json");
  EXPECT_TRUE(absl::EndsWith(changed.at("tokenizer.json"), was.substr(was.find("\"normalizer\""))));
  const auto again = Open(With(files, changed));
  EXPECT_THAT(again->Encode("<a><b><end><more>"), ElementsAre(672, 673, 674, 675));
  EXPECT_EQ(again->eos(), 674);
  EXPECT_FALSE(again->IsSpecial(672));
  EXPECT_TRUE(again->IsSpecial(675));
}

// Without a tokenizer.json, new tokens are written to tokenizer_config.json with their ids.
TEST(TokenizerFiles, OtherModelsTakeThemToo) {
  const TokenizerFiles files = {{"tokenizer.model", Tiny("bpe.model")}};
  const auto plain = Open(files);
  const auto tokenizer = Open(files, {.add_tokens = {"<a>"}, .add_special_tokens = {"<b>"}});
  ASSERT_OK_AND_ASSIGN(const TokenizerFiles changed, ChangedFiles(files, *tokenizer));
  const auto again = Open(With(files, changed));
  for (const char* text : {"<a> x<b>", "Hello <b> world", "no more"})
    EXPECT_EQ(again->Encode(text), tokenizer->Encode(text)) << text;
  EXPECT_EQ(again->IdOf("<b>"), plain->vocab_size() + 1);
  EXPECT_TRUE(again->IsSpecial(*again->IdOf("<b>")));
}

TEST(TokenizerFiles, ReportsWhetherSpecialTokensAreSplit) {
  const TokenizerFiles files = {{"tokenizer.json", Tiny("smollm2.tokenizer.json")},
                                {"tokenizer_config.json", R"({"eos_token": "<|im_end|>"})"}};
  ASSERT_OK_AND_ASSIGN(const TokenizerFiles changed,
                       ChangedFiles(files, *Open(files, {.split_special_tokens = true})));
  EXPECT_EQ(json::parse(changed.at("tokenizer_config.json"))["split_special_tokens"], true);
  EXPECT_THAT(*ChangedFiles(With(files, changed),
                            *Open(With(files, changed), {.split_special_tokens = true})),
              IsEmpty());
  EXPECT_EQ(json::parse(ChangedFiles(With(files, changed), *Open(With(files, changed)))
                            ->at("tokenizer_config.json"))["split_special_tokens"],
            false);
}

TEST(TokenizerFiles, OlderFilesCount) {
  const TokenizerFiles files = {
      {"tokenizer.json", Tiny("smollm2.tokenizer.json")},
      {"tokenizer_config.json", R"({"eos_token": "<|im_end|>"})"},
      {"special_tokens_map.json",
       R"({"eos_token": "<|im_start|>", "additional_special_tokens": ["<old>"]})"},
      {"added_tokens.json", R"({"<old>": 672, "<plain>": 673})"}};
  const auto tokenizer = Open(files);
  EXPECT_EQ(tokenizer->eos(), 1) << "special_tokens_map.json wins";
  EXPECT_THAT(tokenizer->Encode("<old><plain>"), ElementsAre(672, 673));
  EXPECT_TRUE(tokenizer->IsSpecial(672));
  EXPECT_FALSE(tokenizer->IsSpecial(673));
  const auto added = Tokenizer::WithStopWords(tokenizer, "<end>", {"<more>"});
  ASSERT_OK_AND_ASSIGN(const TokenizerFiles changed, ChangedFiles(files, *added));
  EXPECT_EQ(json::parse(changed.at("special_tokens_map.json"))["eos_token"], "<end>");
  EXPECT_EQ(json::parse(changed.at("special_tokens_map.json"))["additional_special_tokens"],
            json({"<old>", "<more>"}));
  EXPECT_EQ(json::parse(changed.at("added_tokens.json"))["<more>"], 675);
  EXPECT_THAT(Open(With(files, changed))->Encode("<old><plain><end><more>"),
              ElementsAre(672, 673, 674, 675));

  TokenizerFiles newer = files;
  newer["tokenizer_config.json"] = R"({"eos_token": "<|im_end|>", "added_tokens_decoder": {}})";
  EXPECT_EQ(Open(newer)->eos(), 2) << "a config that lists its tokens needs no other file";
}

TEST(TokenizerFiles, WhichFileIsRead) {
  const TokenizerFiles pair = {{"vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})"},
                               {"merges.txt", "a b\n"}};
  EXPECT_THAT(Open(pair)->Encode("ab<|endoftext|>a"), ElementsAre(2, 3, 0));
  EXPECT_EQ(Open(pair)->unk(), 3);
  EXPECT_THAT(
      OpenTokenizer(
          With(pair, {{"tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})"}}),
          "folder")
          .status(),
      StatusIs(absl::StatusCode::kUnimplemented,
               HasSubstr("folder/vocab.json: Qwen2Tokenizer cuts texts otherwise than GPT-2; it "
                         "needs a tokenizer.json")));
  EXPECT_THAT(OpenTokenizer({{"vocab.json", "{}"}}, "folder").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("folder: no tokenizer.json")));
  EXPECT_THAT(
      OpenTokenizer(With(pair, {{"added_tokens.json", R"({"<x>": "1"})"}}), "folder").status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("folder/added_tokens.json: \"<x>\": expected an integer, found \"1\"")));
  EXPECT_THAT(
      OpenTokenizer(With(pair, {{"special_tokens_map.json", "[]"}}), "folder").status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("folder/special_tokens_map.json: expected an object, found an array")));
}

}  // namespace
}  // namespace moonring::data
