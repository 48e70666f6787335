#include "model/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "data/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/gguf/gguf.h"
#include "model/gguf/sentencepiece_merges.h"
#include "nlohmann/json.hpp"
#include "tests/model/gguf/gguf_writer.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::GgufWriter;
using ::moonring::testing::IsOk;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::moonring::testing::TinyGguf;
using ::nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInvalidVocabulary = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplementedVocabulary = absl::StatusCode::kUnimplemented;

absl::StatusOr<std::shared_ptr<const GgufFile>> OpenBytes(const std::string& bytes) {
  const ScratchFolder folder;
  return GgufFile::Open(folder.Write("x.gguf", bytes));
}

std::map<std::string, json> TokenizerOf(const GgufWriter& writer) {
  std::map<std::string, json> files;
  const auto file = OpenBytes(writer.Bytes());
  EXPECT_THAT(file, IsOk());
  const auto texts = TokenizerFilesFromGguf(**file);
  EXPECT_THAT(texts, IsOk());
  for (const auto& [name, text] : *texts) files[name] = json::parse(text);
  return files;
}

TEST(GgufTokenizerTest, WritesHuggingFacesFiles) {
  auto files = TokenizerOf(TinyGguf());
  const json& model = files["tokenizer.json"]["model"];
  EXPECT_EQ(model["type"], "BPE");
  EXPECT_EQ(model["vocab"].size(), 12);
  EXPECT_EQ(model["vocab"]["abc"], 5);
  EXPECT_EQ(model["vocab"]["\""], 8);
  EXPECT_EQ(model["merges"], json::parse(R"([["a","b"],["ab","c"],["Ġ","a"]])"));
  EXPECT_EQ(files["tokenizer.json"]["added_tokens"],
            json::parse(
                R"([{"id":0,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":false,)"
                R"("normalized":false,"special":true},
                            {"id":9,"content":"<tool>","single_word":false,"lstrip":false,)"
                R"("rstrip":false,"normalized":false,"special":false}])"));
  EXPECT_EQ(
      files["tokenizer.json"]["pre_tokenizer"],
      json::parse(R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
                            {"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
                  R"("use_regex":true}]})"));
  EXPECT_EQ(files["tokenizer.json"]["decoder"]["type"], "ByteLevel");
  EXPECT_TRUE(files["tokenizer.json"]["post_processor"].is_null());
  EXPECT_EQ(
      files["tokenizer_config.json"],
      json::parse(
          R"({"tokenizer_class":"PreTrainedTokenizerFast","bos_token":"<|end|>","eos_token":"<|)"
          R"(end|>",
                            "model_max_length":64,"clean_up_tokenization_spaces":false,)"
          R"("chat_template":"{{ messages }}\n"})"));
  EXPECT_EQ(files["special_tokens_map.json"],
            json::parse(R"({"bos_token":"<|end|>","eos_token":"<|end|>"})"));
  EXPECT_EQ(files["generation_config.json"], json::parse(R"({"bos_token_id":0,"eos_token_id":0})"));
}

GgufWriter Splitting(const std::string& pre) {
  GgufWriter file;
  file.String("tokenizer.ggml.model", "gpt2");
  if (!pre.empty()) file.String("tokenizer.ggml.pre", pre);
  file.Strings("tokenizer.ggml.tokens", {"a", "b", "<s>", "<e>", "<t>"});
  file.Strings("tokenizer.ggml.merges", {});
  file.U32("tokenizer.ggml.bos_token_id", 2);
  file.U32("tokenizer.ggml.eos_token_id", 3);
  file.U32("tokenizer.ggml.eot_token_id", 4);
  return file;
}

// Splitting rules give the stages of the published tokenizers, as in tests/golden/tokenizer/tiny.
TEST(GgufTokenizerTest, KnowsSplittingRules) {
  for (const char* pre : {"gpt-2", "default", "phi-2", ""}) {
    EXPECT_EQ(TokenizerOf(Splitting(pre))["tokenizer.json"]["pre_tokenizer"],
              json::parse(R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
                          R"("use_regex":true})"));
  }
  for (const auto& [pre, peer] : {std::pair("llama-bpe", "llama3"), std::pair("qwen2", "qwen3"),
                                  std::pair("deepseek-r1-qwen", "qwen3")}) {
    const json published = json::parse(moonring::testing::ReadAll(
        absl::StrCat("tests/golden/tokenizer/tiny/", peer, ".tokenizer.json")));
    const json ours = TokenizerOf(Splitting(pre))["tokenizer.json"];
    EXPECT_EQ(ours["pre_tokenizer"], published["pre_tokenizer"]) << pre;
    EXPECT_EQ(ours["normalizer"], published["normalizer"]) << pre;
    EXPECT_EQ(ours["decoder"], published["decoder"]) << pre;
    EXPECT_EQ(ours["model"]["ignore_merges"], published["model"]["ignore_merges"]) << pre;
    EXPECT_EQ(ours["post_processor"].is_null(), published["post_processor"].is_null()) << pre;
  }
  const json llama3 = TokenizerOf(Splitting("llama-bpe"))["tokenizer.json"];
  for (const char* pre : {"glm4", "chatglm-bpe", "dbrx"})
    EXPECT_EQ(TokenizerOf(Splitting(pre))["tokenizer.json"]["pre_tokenizer"],
              llama3["pre_tokenizer"]);
  for (const char* pre : {"starcoder", "refact"}) {
    EXPECT_EQ(TokenizerOf(Splitting(pre))["tokenizer.json"],
              TokenizerOf(Splitting("smollm"))["tokenizer.json"])
        << pre;
  }
  auto llama = TokenizerOf(Splitting("llama-bpe"));
  EXPECT_EQ(
      llama["tokenizer.json"]["post_processor"]["single"],
      json::parse(
          R"([{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}])"));
  EXPECT_EQ(llama["tokenizer.json"]["post_processor"]["special_tokens"],
            json::parse(R"({"<s>":{"id":"<s>","ids":[2],"tokens":["<s>"]}})"));
  EXPECT_EQ(llama["generation_config.json"]["eos_token_id"], json::parse("[3,4]"));
}

TEST(GgufTokenizerTest, RefusesWhatDoesNotFitTogether) {
  const auto status = [](const GgufWriter& writer) {
    return TokenizerFilesFromGguf(**OpenBytes(writer.Bytes())).status();
  };
  EXPECT_THAT(status(Splitting("chameleon")),
              StatusIs(kUnimplementedVocabulary,
                       HasSubstr("tokenizer.ggml.pre: 'chameleon' is not supported yet; "
                                 "supported: smollm, starcoder, refact, gpt-2, phi-2, ")));
  GgufWriter unigram;
  unigram.String("tokenizer.ggml.model", "t5");
  EXPECT_THAT(status(unigram),
              StatusIs(kUnimplementedVocabulary,
                       HasSubstr("tokenizer.ggml.model: 't5' is not supported yet; "
                                 "supported: gpt2 (byte-level BPE), llama")));
  EXPECT_OK(status(GgufWriter()));
  const auto parts = [&](const std::vector<std::string>& tokens,
                         const std::vector<std::string>& merges, const std::vector<int32_t>& types,
                         uint32_t eos) {
    GgufWriter file;
    file.String("tokenizer.ggml.model", "gpt2");
    file.Strings("tokenizer.ggml.tokens", tokens);
    file.Strings("tokenizer.ggml.merges", merges);
    file.Ints("tokenizer.ggml.token_type", types);
    file.U32("tokenizer.ggml.eos_token_id", eos);
    return status(file);
  };
  EXPECT_OK(parts({"a", "b", "ab"}, {"a b"}, {1, 1, 1}, 2));
  EXPECT_THAT(parts({"a", "b", "ab"}, {"ab"}, {1, 1, 1}, 2),
              StatusIs(kInvalidVocabulary,
                       HasSubstr("tokenizer.ggml.merges: number 0, 'ab', does not join")));
  EXPECT_THAT(parts({"a", "b", "ab"}, {"a b", "b a"}, {1, 1, 1}, 2),
              StatusIs(kInvalidVocabulary, HasSubstr("number 1")));
  EXPECT_THAT(parts({"a", "b", "ab"}, {"a b"}, {1, 1}, 2),
              StatusIs(kInvalidVocabulary, HasSubstr("token_type: 2 types for 3 tokens")));
  EXPECT_THAT(
      parts({"a", "b", "ab"}, {"a b"}, {1, 1, 1}, 3),
      StatusIs(kInvalidVocabulary, HasSubstr("eos_token_id: 3 is not one of the 3 tokens")));
  EXPECT_THAT(parts({"a", "b", "a"}, {}, {1, 1, 1}, 2),
              StatusIs(kInvalidVocabulary, HasSubstr("two tokens have the same text")));
  const auto pieces = [&](const std::vector<std::string>& tokens,
                          const std::vector<float>& scores) {
    GgufWriter file;
    file.String("tokenizer.ggml.model", "llama");
    file.Strings("tokenizer.ggml.tokens", tokens);
    file.Floats("tokenizer.ggml.scores", scores);
    return status(file);
  };
  EXPECT_OK(pieces({"a", "b"}, {0, -1}));
  EXPECT_THAT(
      pieces({"a", "b"}, {0}),
      StatusIs(kInvalidVocabulary, HasSubstr("tokenizer.ggml.scores: 1 scores for 2 tokens")));
  EXPECT_THAT(pieces({"a", "b"}, {0, std::nanf("")}),
              StatusIs(kInvalidVocabulary, HasSubstr("that of token 1 is not finite")));
  EXPECT_THAT(pieces({"a", "a"}, {0, 0}),
              StatusIs(kInvalidVocabulary, HasSubstr("two tokens have the same text")));
  GgufWriter scoreless;
  scoreless.String("tokenizer.ggml.model", "llama");
  scoreless.Strings("tokenizer.ggml.tokens", {"a"});
  EXPECT_THAT(status(scoreless),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("tokenizer.ggml.scores: missing")));
}

json GoldenTokenizer(const std::string& name) {
  return json::parse(moonring::testing::ReadAll("tests/golden/tokenizer/" + name));
}

// A file as the usual converter writes it from a sentencepiece model: the scores of control and
// user-defined tokens are lost, and so are spaces in the latter.
GgufWriter SentencePieces(const std::string& name, bool space_prefix) {
  constexpr int kControl = 3, kUserDefined = 4;
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (const json& piece : GoldenTokenizer("tiny/" + name + ".pieces.json")) {
    types.push_back(piece[2].get<int32_t>());
    const bool kept = types.back() != kControl && types.back() != kUserDefined;
    tokens.push_back(piece[0].get<std::string>());
    if (types.back() == kUserDefined)
      tokens.back() = absl::StrReplaceAll(tokens.back(), {{"\u2581", " "}});
    scores.push_back(kept ? piece[1].get<float>() : -1000);
  }
  const auto id_of = [&](const std::string& token) {
    return static_cast<uint32_t>(std::find(tokens.begin(), tokens.end(), token) - tokens.begin());
  };
  GgufWriter file;
  file.String("tokenizer.ggml.model", "llama");
  file.String("tokenizer.ggml.pre", "default");
  file.Strings("tokenizer.ggml.tokens", tokens);
  file.Floats("tokenizer.ggml.scores", scores);
  file.Ints("tokenizer.ggml.token_type", types);
  file.U32("tokenizer.ggml.bos_token_id", id_of(space_prefix ? "<s>" : "<bos>"));
  file.U32("tokenizer.ggml.unknown_token_id", id_of("<unk>"));
  if (!space_prefix) file.Bool("tokenizer.ggml.add_space_prefix", false);
  return file;
}

class SentencePieceTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SentencePieceTest, EncodesAsTheLibraryDoes) {
  const std::string name = GetParam();
  const bool llama = name == "llama2";
  const auto file = OpenBytes(SentencePieces(name, llama).Bytes());
  ASSERT_THAT(file, IsOk());
  ASSERT_OK_AND_ASSIGN(const auto files, TokenizerFilesFromGguf(**file));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       data::Tokenizer::FromJson(files.at("tokenizer.json"),
                                                 files.at("tokenizer_config.json"), name));
  EXPECT_EQ(tokenizer->bos(), llama ? 1 : 2);
  EXPECT_EQ(tokenizer->unk(), llama ? 0 : 3);
  EXPECT_TRUE(tokenizer->adds_bos());
  const json strings = GoldenTokenizer("strings.json"),
             golden = GoldenTokenizer("tiny/" + name + ".json");
  EXPECT_EQ(tokenizer->vocab_size(), golden["vocab_size"].get<int64_t>());
  for (size_t i = 0; i < strings.size(); ++i) {
    const auto ids = golden["ids"][i].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->Encode(strings[i].get<std::string>()), ids) << strings[i];
    EXPECT_EQ(tokenizer->Decode(ids), golden["decoded"][i].get<std::string>()) << strings[i];
    EXPECT_EQ(tokenizer->Decode(ids, /*skip_special=*/true),
              golden["decoded_skip_special"][i].get<std::string>())
        << strings[i];
  }
}

// The tokenizer equals the published one, except for the order in which merges are written.
TEST_P(SentencePieceTest, WritesThePublishedStages) {
  const std::string name = GetParam();
  auto files = TokenizerOf(SentencePieces(name, name == "llama2"));
  const json& ours = files["tokenizer.json"];
  const json peer = GoldenTokenizer("tiny/" + name + ".tokenizer.json");
  for (const char* key : {"normalizer", "decoder", "added_tokens"})
    EXPECT_EQ(ours[key], peer[key]) << key;
  for (const char* key : {"vocab", "unk_token", "fuse_unk", "byte_fallback", "ignore_merges"})
    EXPECT_EQ(ours["model"][key], peer["model"][key]) << key;
  EXPECT_TRUE(ours["pre_tokenizer"].is_null()) << "Gemma's cuts at spaces, of which there are none";
  EXPECT_EQ(files["tokenizer_config.json"]["add_bos_token"], true);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePieceTest, ::testing::Values("llama2", "gemma"));

TEST(SentencePieceMergesTest, OrdersByScoreThenByLeftThenByRight) {
  const std::vector<SentencePiece> pieces = {{"a", -9},        {"\u6f22", -9},
                                             {"a\u6f22", -2},  {"\u6f22a", -1},
                                             {"a\u6f22a", -2}, {"aa", -3, /*made=*/false},
                                             {"aaa", -2}};
  EXPECT_THAT(
      SentencePieceMerges(pieces),
      ElementsAre(std::pair("\u6f22", "a"), std::pair("a\u6f22", "a"), std::pair("aa", "a"),
                  std::pair("a", "\u6f22a"), std::pair("a", "aa"), std::pair("a", "\u6f22")));
}

}  // namespace
}  // namespace moonring::model
