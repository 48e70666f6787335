// Whole tokenizers give the same ids and texts as the tokenizers library (tests/golden/README.md).
#include "data/text/tokenizer.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_tokenizer.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using moonring::testing::IsOk;
using moonring::testing::ReadRunfile;
using moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Made = absl::StatusOr<std::shared_ptr<const Tokenizer>>;

Made FromFile(const std::string& path) { return Tokenizer::FromJson(ReadRunfile(path), "", path); }

Made Gpt2() {
  return Tokenizer::FromVocabAndMerges(ReadRunfile("external/tokenizers/gpt2/encoder.json"),
                                       ReadRunfile("external/tokenizers/gpt2/vocab.bpe"), "",
                                       "encoder.json");
}

Made SmolLm2() {
  const auto gguf = model::GgufFile::Open("external/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
  if (!gguf.ok()) return gguf.status();
  const auto files = model::TokenizerFilesFromGguf(**gguf);
  if (!files.ok()) return files.status();
  return Tokenizer::FromJson(files->at("tokenizer.json"), files->at("tokenizer_config.json"),
                             "SmolLM2");
}

// The bytes of tokens one after another are the text, except that some decoders drop a space at the
// beginning of a text.
void ExpectSameByToken(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string bytes, text = tokenizer.Decode(ids);
  for (const int32_t id : ids) bytes += tokenizer.BytesOf(id);
  if (bytes.size() == text.size() + 1 && bytes[0] == ' ') bytes.erase(0, 1);
  if (!absl::StrContains(text, "\uFFFD")) {
    EXPECT_EQ(bytes, text);
  }
}

void ExpectGolden(const Made& made, const std::string& name) {
  ASSERT_THAT(made, IsOk());
  const Tokenizer& tokenizer = **made;
  const json golden = json::parse(ReadRunfile("tests/golden/tokenizer/" + name + ".json"));
  const json strings = json::parse(ReadRunfile("tests/golden/tokenizer/strings.json"));
  ASSERT_EQ(golden["ids"].size(), strings.size());
  EXPECT_EQ(tokenizer.vocab_size(), golden["vocab_size"].get<int64_t>());
  for (size_t i = 0; i < strings.size(); ++i) {
    const auto ids = golden["ids"][i].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.Encode(strings[i].get_ref<const std::string&>()), ids) << strings[i];
    EXPECT_EQ(tokenizer.Decode(ids), golden["decoded"][i].get<std::string>()) << strings[i];
    EXPECT_EQ(tokenizer.Decode(ids, /*skip_special=*/true),
              golden["decoded_skip_special"][i].get<std::string>())
        << strings[i];
    ExpectSameByToken(tokenizer, ids);
  }
  ASSERT_GT(golden["decode_cases"].size(), 0);
  for (const json& broken : golden["decode_cases"]) {
    EXPECT_EQ(tokenizer.Decode(broken["ids"].get<std::vector<int32_t>>()),
              broken["text"].get<std::string>())
        << broken;
  }
}

TEST(Tokenizer, TinyOnesEqualTheLibrary) {
  for (const std::string name :
       {"tiny/smollm2", "tiny/llama3", "tiny/qwen3", "tiny/gpt2", "tiny/llama2", "tiny/gemma",
        "tiny/mistral", "tiny/metaspace", "tiny/odd", "tiny/t5", "tiny/xlmr", "tiny/unigram_bytes",
        "tiny/unigram_letters", "tiny/bert", "tiny/bert_cased"}) {
    SCOPED_TRACE(name);
    ExpectGolden(FromFile("tests/golden/tokenizer/" + name + ".tokenizer.json"), name);
  }
}
TEST(Tokenizer, Gpt2EqualsTheLibrary) { ExpectGolden(Gpt2(), "gpt2"); }
TEST(Tokenizer, Llama3EqualsTheLibrary) {
  ExpectGolden(FromFile("external/tokenizers/llama3/tokenizer.json"), "llama3");
}
TEST(Tokenizer, Qwen3EqualsTheLibrary) {
  ExpectGolden(FromFile("external/tokenizers/qwen3/tokenizer.json"), "qwen3");
}
TEST(Tokenizer, SmolLm2EqualsTheLibrary) { ExpectGolden(SmolLm2(), "smollm2"); }

// A tokenizer.json with the tokens a, b, ab and a space, in GPT-2's byte alphabet.
json Small() {
  return {{"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"\u0120", 3}}},
            {"merges", {"a b"}}}},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"added_tokens",
           {{{"id", 4}, {"content", "<x>"}, {"special", true}, {"normalized", false}}}}};
}
Made FromParts(const json& document, const std::string& config = "") {
  return Tokenizer::FromJson(document.dump(), config, "t.json");
}

TEST(Tokenizer, MergesInBothShapes) {
  for (const json& merges :
       {json::array({"#version: 0.2", "a b"}), json::array({json::array({"a", "b"})})}) {
    json document = Small();
    document["model"]["merges"] = merges;
    ASSERT_OK_AND_ASSIGN(const auto tokenizer, FromParts(document));
    EXPECT_THAT(tokenizer->Encode("ab a"), ElementsAre(2, 3, 0));
  }
}

TEST(Tokenizer, ConfigNamesSpecialTokens) {
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      FromParts(Small(),
                R"({"bos_token": "<x>", "eos_token": {"content": "<end>"}, "pad_token": null,
      "added_tokens_decoder": {"5": {"content": "<think>", "special": false}, )"
                R"("4": {"content": "<x>", "special": true}}})"));
  EXPECT_EQ(tokenizer->bos(), 4);
  EXPECT_EQ(tokenizer->eos(), 6) << "added_tokens_decoder goes first";
  EXPECT_EQ(tokenizer->pad(), std::nullopt);
  EXPECT_EQ(tokenizer->IdOf("<think>"), 5);
  EXPECT_EQ(tokenizer->vocab_size(), 7);
  EXPECT_THAT(tokenizer->Encode("a<x>b<think><end>"), ElementsAre(0, 4, 1, 5, 6));
  EXPECT_EQ(tokenizer->Decode({0, 4, 1, 5, 6}, /*skip_special=*/true), "ab<think>");
  EXPECT_EQ(tokenizer->TokenOf(6), "<end>");
  EXPECT_EQ(tokenizer->TokenOf(7), "");
  EXPECT_EQ(tokenizer->Decode({-1, 0, 7, 1 << 30}), "a");
}

TEST(Tokenizer, ConfigsOfTransformers5) {
  ASSERT_OK_AND_ASSIGN(
      const auto listed,
      FromParts(
          Small(),
          R"({"tokenizer_class": "TokenizersBackend", "add_bos_token": true, "bos_token": "<x>",
      "extra_special_tokens": ["<a>", {"content": "<b>", "lstrip": true}]})"));
  EXPECT_TRUE(listed->adds_bos());
  EXPECT_THAT(listed->Encode("a<a>b  <b>"), ElementsAre(0, 5, 1, 6));
  EXPECT_TRUE(listed->IsSpecial(6));
  ASSERT_OK_AND_ASSIGN(
      const auto named,
      FromParts(Small(), R"({"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": true,
      "extra_special_tokens": {"image_token": "<image>"}, "additional_special_tokens": ["<y>"]})"));
  EXPECT_FALSE(named->adds_bos());
  EXPECT_THAT(named->Encode("<image><y>"), ElementsAre(6, 5));
  EXPECT_THAT(
      FromParts(Small(), R"({"extra_special_tokens": 1})"),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("tokenizer_config.json: extra_special_tokens: expected an array, found 1")));
}

TEST(Tokenizer, TokensAreAdded) {
  TokenizerOptions options{.add_tokens = {"<new>", "ab"}, .add_special_tokens = {"<s1>", "<x>"}};
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       Tokenizer::FromJson(Small().dump(), "", "t.json", options));
  EXPECT_THAT(tokenizer->Encode("a<new>b<s1>ab<x>"), ElementsAre(0, 5, 1, 6, 2, 4));
  EXPECT_FALSE(tokenizer->IsSpecial(5));
  EXPECT_TRUE(tokenizer->IsSpecial(6));
  EXPECT_EQ(tokenizer->vocab_size(), 7);
  EXPECT_EQ(tokenizer->Decode({5, 6}, /*skip_special=*/true), "<new>");
}

TEST(Tokenizer, SpecialTokensInTextsAreSplit) {
  json document = Small();
  json& vocabulary = document["model"]["vocab"];
  vocabulary.update({{"<", 4}, {">", 5}, {"x", 6}, {"y", 7}});
  document["added_tokens"] = {{{"id", 8}, {"content", "<x>"}, {"special", true}},
                              {{"id", 9}, {"content", "<y>"}, {"special", false}}};
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::FromJson(document.dump(), "", "t.json",
                                                                 {.split_special_tokens = true}));
  EXPECT_THAT(tokenizer->Encode("a<x>b<y>"), ElementsAre(0, 4, 6, 5, 1, 9));
  EXPECT_EQ(tokenizer->IdOf("<x>"), 8);
}

TEST(Tokenizer, Gpt2sPairNamesItsEnd) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::FromVocabAndMerges(
                                                 R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})",
                                                 "#version: 0.2\na b\n", "", "v"));
  EXPECT_EQ(tokenizer->eos(), 3);
  EXPECT_EQ(tokenizer->bos(), 3);
  EXPECT_THAT(tokenizer->Encode("ab<|endoftext|>a"), ElementsAre(2, 3, 0));
}

TEST(Tokenizer, MalformedTextIsRepaired) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       FromFile("tests/golden/tokenizer/tiny/llama3.tokenizer.json"));
  EXPECT_EQ(tokenizer->Encode("a\xFF\xC3"), tokenizer->Encode("a\uFFFD\uFFFD"));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("a\xFFz")), "a\uFFFDz");
}

TEST(Tokenizer, ThreadsShareOne) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       FromFile("tests/golden/tokenizer/tiny/qwen3.tokenizer.json"));
  const json golden = json::parse(ReadRunfile("tests/golden/tokenizer/tiny/qwen3.json"));
  const json strings = json::parse(ReadRunfile("tests/golden/tokenizer/strings.json"));
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < strings.size(); ++i) {
        wrong[thread] += tokenizer->Encode(strings[i].get_ref<const std::string&>()) !=
                         golden["ids"][i].get<std::vector<int32_t>>();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST(Tokenizer, RefusesBadFilesByPlace) {
  EXPECT_THAT(Tokenizer::FromJson("{\n \"model\": {,}\n}", "", "dir/tokenizer.json"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("dir/tokenizer.json:2:12: syntax error")));
  EXPECT_THAT(Tokenizer::FromJson("", "", "t.json"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("t.json:1:1: ")));
  EXPECT_THAT(Tokenizer::FromJson("[]", "", "t.json"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("t.json: expected an object, found an array")));
  EXPECT_THAT(FromParts(Small(), "{\"bos_token\": 1}"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tokenizer_config.json: bos_token: expected an object, found 1")));
  struct Case {
    const char* pointer;
    json value;
    absl::StatusCode code;
    const char* message;
  };
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  constexpr auto kNot = absl::StatusCode::kUnimplemented;
  const Case cases[] = {
      {"/model/type", "WordLevel", kNot,
       "t.json: model: model type \"WordLevel\" is not supported, only BPE, Unigram and WordPiece"},
      {"/model/type", "Unigram", kBad, "t.json: model.vocab: expected an array, found an object"},
      {"/model",
       {{"type", "Unigram"},
        {"vocab", json::array({json::array({"a", -1}), json::array({"b", "c"})})}},
       kBad,
       "t.json: model.vocab[1]: expected [TOKEN, SCORE], found an array"},
      {"/model",
       {{"type", "Unigram"},
        {"vocab", json::array({json::array({"a", -1}), json::array({"b", -2})})},
        {"unk_id", 2}},
       kBad,
       "t.json: model: unk_id 2 is not one of the 2 pieces"},
      {"/model/type", "WordPiece", kBad, "t.json: model: has no \"unk_token\" (a string)"},
      {"/model/byte_fallback", true, kNot,
       "t.json: model: byte_fallback is not supported with ByteLevel where a byte has no token"},
      {"/model/dropout", 0.1, kNot, "t.json: model: dropout is not supported"},
      {"/model/end_of_word_suffix", "</w>", kNot, "end_of_word_suffix is not supported"},
      {"/model/vocab", 1, kBad, "t.json: model.vocab: expected an object, found 1"},
      {"/model/vocab/ab", "2", kBad,
       "t.json: model.vocab[\"ab\"]: expected an integer, found \"2\""},
      {"/model/vocab/ab", 1, kBad, "both have id 1"},
      {"/model/vocab/ab", 1 << 23, kBad, "has id 8388608, expected 0 to 1048"},
      {"/model/merges", json::array({"a b c"}), kBad,
       "t.json: model.merges[0]: expected \"LEFT RIGHT\""},
      {"/model/merges", json::array({"a c"}), kBad,
       "t.json: model: merges[0] (\"a\" and \"c\"): \"c\" is not in the vocabulary"},
      {"/model/ignore_merges", "yes", kBad,
       "t.json: model.ignore_merges: expected a boolean, found \"yes\""},
      {"/model", nullptr, kBad, "t.json: model: expected an object, found null"},
      {"/normalizer",
       {{"type", "Unheard"}},
       kNot,
       "t.json: normalizer: normalizer type \"Unheard\""},
      {"/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "*"}},
       kBad,
       "t.json: normalizer.precompiled_charsmap: not base64"},
      {"/normalizer",
       {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}},
       kBad,
       "a map of characters of 4 bytes does not hold a trie of"},
      {"/pre_tokenizer",
       {{"type", "UnicodeScripts"}},
       kNot,
       "t.json: pre_tokenizer: pre-tokenizer type \"UnicodeScripts\""},
      {"/decoder", {{"type", "CTC"}}, kNot, "t.json: decoder: decoder type \"CTC\""},
      {"/decoder", nullptr, kBad, "t.json: decoder: expected an object, found null"},
      {"/added_tokens/0/id", 9, kBad,
       "t.json: added_tokens[0]: \"<x>\" says id 9, but 4 is the next free id"},
      {"/added_tokens/0/content", "ab", kBad,
       "\"ab\" says id 4, but 2 is its id in the vocabulary"},
      {"/added_tokens/0/lstrip", 1, kBad, "t.json: added_tokens[0].lstrip: expected a boolean"},
      {"/added_tokens", json::object(), kBad,
       "t.json: added_tokens: expected an array, found an object"},
  };
  for (const Case& c : cases) {
    json document = Small();
    document[json::json_pointer(c.pointer)] = c.value;
    EXPECT_THAT(FromParts(document), StatusIs(c.code, HasSubstr(c.message)))
        << c.pointer << " = " << c.value;
  }
  json document = Small();
  document["post_processor"] = {{"type", "Unheard"}};
  document["decoder"] = {{"type", "Sequence"},
                         {"decoders", {{{"type", "ByteLevel"}}, {{"type", "Fuse"}}}}};
  EXPECT_THAT(FromParts(document), IsOk());
}

}  // namespace
}  // namespace moonring::data
