// Tokenizers from sentencepiece models and tiktoken's rank files give the same ids as sentencepiece
// and tiktoken (tests/golden/README.md). Invalid files are rejected.
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_formats/sentencepiece_model.h"
#include "data/text/tokenizer_formats/tiktoken_ranks.h"
#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using moonring::testing::ReadRunfile;
using moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kBad = absl::StatusCode::kInvalidArgument;
constexpr auto kNot = absl::StatusCode::kUnimplemented;

const std::string kGolden = "tests/golden/tokenizer/";

// Compares encoding and decoding with a golden file of rows [ids, text or null].
void ExpectRows(const std::string& file, const std::string& golden_file) {
  SCOPED_TRACE(file);
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::FromModelFile(ReadRunfile(file), "", file));
  const json golden = json::parse(ReadRunfile(kGolden + golden_file));
  const json strings = json::parse(ReadRunfile(kGolden + "strings.json"));
  ASSERT_EQ(golden.size(), strings.size());
  for (size_t i = 0; i < strings.size(); ++i) {
    const auto ids = golden[i][0].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer->Encode(strings[i].get_ref<const std::string&>()), ids) << strings[i];
    if (golden[i][1].is_null()) continue;
    EXPECT_EQ(tokenizer->Decode(ids), golden[i][1].get<std::string>()) << strings[i];
  }
}

TEST(SentencePieceModel, EncodesAsSentencePieceDoes) {
  for (const std::string name :
       {"tiny/unigram", "tiny/unigram_plain", "tiny/bpe", "tiny/bpe_nobytes"}) {
    ExpectRows(absl::StrCat(kGolden, name, ".model"), name + ".model.json");
  }
}

TEST(SentencePieceModel, NamesItsSpecialTokens) {
  const std::string bytes = ReadRunfile(kGolden + "tiny/unigram.model");
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      Tokenizer::FromModelFile(bytes, R"({"eos_token": "<|im_end|>", "add_bos_token": true})",
                               "t.model"));
  EXPECT_EQ(tokenizer->bos(), tokenizer->IdOf("<s>"));
  EXPECT_EQ(tokenizer->eos(), tokenizer->IdOf("<|im_end|>"));
  EXPECT_EQ(tokenizer->unk(), 0);
  EXPECT_TRUE(tokenizer->IsSpecial(0));
  EXPECT_FALSE(tokenizer->IsSpecial(*tokenizer->IdOf("<sep>"))) << "user-defined";
}

TEST(SentencePieceModel, APrefixBeforeEachPartOrTheFirstOnly) {
  const std::string bytes = ReadRunfile(kGolden + "tiny/bpe.model");
  ASSERT_OK_AND_ASSIGN(const auto legacy, Tokenizer::FromModelFile(bytes, "", "t.model"));
  ASSERT_OK_AND_ASSIGN(const auto first_only,
                       Tokenizer::FromModelFile(bytes, R"({"legacy": false})", "t.model"));
  const auto spaced = legacy->Encode("the</s>the");
  const auto plain = first_only->Encode("the</s>the");
  ASSERT_EQ(spaced.size() % 2, 1);
  EXPECT_EQ(
      std::vector(spaced.begin(), spaced.begin() + static_cast<std::ptrdiff_t>(spaced.size() / 2)),
      std::vector(spaced.end() - static_cast<std::ptrdiff_t>(spaced.size() / 2), spaced.end()));
  EXPECT_EQ(legacy->Decode(spaced), "the</s> the");
  EXPECT_EQ(first_only->Decode(plain), "the</s>the");
  ASSERT_OK_AND_ASSIGN(const auto none, Tokenizer::FromModelFile(
                                            bytes, R"({"add_prefix_space": false})", "t.model"));
  EXPECT_EQ(none->Decode(none->Encode("the")), "the");
  EXPECT_NE(none->Encode("the"), legacy->Encode("the"));
  EXPECT_EQ(none->Encode(" the"), legacy->Encode("the"));
}

TEST(SentencePieceModel, RefusesOtherFiles) {
  const std::string bytes = ReadRunfile(kGolden + "tiny/unigram.model");
  EXPECT_THAT(
      Tokenizer::FromModelFile(bytes, R"({"tokenizer_class": "XLMRobertaTokenizer"})", "t.model"),
      StatusIs(kNot, HasSubstr("t.model: XLMRobertaTokenizer numbers the pieces otherwise than "
                               "their file; it needs a tokenizer.json")));
  const auto parse = [](const std::string& changed) {
    return SentencePieceModel::Parse(changed, "dir/t.model").status();
  };
  EXPECT_THAT(
      parse(""),
      StatusIs(kBad, HasSubstr("dir/t.model: 0 of the 0 pieces are the unknown one, expected 1")));
  EXPECT_THAT(parse("hello"), StatusIs(kBad, HasSubstr("dir/t.model: not a sentencepiece model")));
  EXPECT_THAT(parse(bytes.substr(0, bytes.size() - 1)), StatusIs(kBad, HasSubstr("malformed")));
  EXPECT_THAT(parse("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
              StatusIs(kBad, HasSubstr("malformed")));
  EXPECT_THAT(parse(bytes + std::string("\x0a\x03\x0a\x01\xff", 5)),
              StatusIs(kBad, HasSubstr("is not UTF-8")));
  EXPECT_THAT(parse(bytes + std::string("\x0a\x00", 2)), StatusIs(kBad, HasSubstr("is empty")));
  EXPECT_THAT(parse(bytes + std::string("\x0a\x05\x0a\x01z\x18\x05", 7)),
              StatusIs(kNot, HasSubstr("is unused")));
  EXPECT_THAT(parse(bytes + std::string("\x0a\x05\x0a\x01z\x18\x09", 7)),
              StatusIs(kBad, HasSubstr("has type 9")));
  EXPECT_THAT(parse(bytes + std::string("\x0a\x08\x0a\x01z\x15\x00\x00\x80\x7f", 10)),
              StatusIs(kBad, HasSubstr("not finite")));
  EXPECT_THAT(parse(bytes + std::string("\x12\x02\x18\x03", 4)),
              StatusIs(kNot, HasSubstr("model type 3 is not supported")));
  EXPECT_THAT(parse(bytes + std::string("\x12\x03\xc0\x01\x01", 5)),
              StatusIs(kNot, HasSubstr("treat_whitespace_as_suffix")));
}

TEST(SentencePieceModel, DamagedOnesNeverCrash) {
  const std::string whole = ReadRunfile(kGolden + "tiny/unigram.model");
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 1 + round % 8; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    const auto made = Tokenizer::FromModelFile(bytes, "", "t.model");
    if (made.ok())
      (*made)->Decode((*made)->Encode(
          "Caf\u00e9  \u212b e\u0301 <sep> \u1112\u1161\u11ab\u2026 the\U0001f600 \ufb01\u3000"));
  }
}

TEST(TiktokenRanks, Llama3sEqualTiktoken) {
  ExpectRows("external/tokenizers/llama3/tokenizer.model", "llama3_ranks.json");
}
TEST(TiktokenRanks, QwensEqualTiktoken) {
  ExpectRows("external/tokenizers/qwen/qwen.tiktoken", "qwen1.json");
}
TEST(TiktokenRanks, Cl100kEqualsTiktoken) {
  ExpectRows("external/tokenizers/cl100k/cl100k_base.tiktoken", "cl100k.json");
}

// Ids are those of mistral-common: special tokens first, then as many ranks as config specifies.
TEST(Tekken, EqualsTiktoken) {
  ExpectRows(absl::StrCat(kGolden, "tiny/tekken.model"), "tiny/tekken.model.json");
}

TEST(Tekken, NamesItsSpecialTokens) {
  json file = json::parse(ReadRunfile(absl::StrCat(kGolden, "tiny/tekken.model")));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       Tokenizer::FromModelFile(file.dump(), "", "tekken.json"));
  EXPECT_EQ(tokenizer->vocab_size(), file["config"]["default_vocab_size"]);
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos(), 2);
  EXPECT_THAT(tokenizer->Encode("[INST]<SPECIAL_20>"), ElementsAre(3, 20));
  EXPECT_TRUE(tokenizer->IsSpecial(3));
  file["special_tokens"] = {{{"rank", 0}, {"token_str", "<s>"}},
                            {{"rank", 1}, {"token_str", "</s>"}}};
  ASSERT_OK_AND_ASSIGN(const auto listed, Tokenizer::FromModelFile(file.dump(), "", "tekken.json"));
  EXPECT_THAT(listed->Encode("</s><SPECIAL_2>"), ElementsAre(1, 2));
}

TEST(Tekken, NamesWhatIsWrong) {
  const json whole = json::parse(ReadRunfile(absl::StrCat(kGolden, "tiny/tekken.model")));
  const auto wrong = [&](const char* pointer, const json& value, const std::string& why) {
    json file = whole;
    file[json::json_pointer(pointer)] = value;
    EXPECT_THAT(Tokenizer::FromModelFile(file.dump(), "", "dir/tekken.json"),
                StatusIs(kBad, HasSubstr(why)));
  };
  wrong("/config/default_vocab_size", 1 << 20, "dir/tekken.json: config asks for 1048576 ids");
  wrong("/config/default_num_special_tokens", 19,
        "20 special tokens, and config says there are 19");
  json vast = whole;
  vast["config"].update({{"default_vocab_size", 1 << 24}, {"default_num_special_tokens", 1 << 24}});
  EXPECT_THAT(Tokenizer::FromModelFile(vast.dump(), "", "tekken.json"),
              StatusIs(kBad, HasSubstr("16777216 of them special")));
  wrong("/config/pattern", 3, "dir/tekken.json: config.pattern: expected");
  wrong("/vocab/7/rank", 9, "dir/tekken.json: vocab[7]: has rank 9");
  wrong("/vocab/7/token_bytes", "?", "vocab[7]: token_bytes are no bytes in base64");
  wrong("/vocab", 3, "dir/tekken.json.vocab: expected an array");
  EXPECT_THAT(Tokenizer::FromModelFile("{\"config\":", "", "dir/tekken.json"),
              StatusIs(kBad, HasSubstr("dir/tekken.json:1:")));
}

TEST(TiktokenRanks, SpecialTokensHaveTheirIds) {
  const std::string llama3 = ReadRunfile("external/tokenizers/llama3/tokenizer.model");
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, Tokenizer::FromModelFile(llama3, "", "llama3"));
  EXPECT_EQ(tokenizer->vocab_size(), 128256);
  EXPECT_EQ(tokenizer->bos(), 128000);
  EXPECT_EQ(tokenizer->eos(), 128001);
  EXPECT_EQ(tokenizer->IdOf("<|eot_id|>"), 128009);
  EXPECT_EQ(tokenizer->IdOf("<|reserved_special_token_247|>"), 128255);
  ASSERT_OK_AND_ASSIGN(const auto named,
                       Tokenizer::FromModelFile(llama3,
                                                R"({"eos_token": "<b>", "added_tokens_decoder": {
      "128001": {"content": "<a>", "special": true}, "128009": {"content": "<b>", )"
                                                R"("special": true}}})",
                                                "llama3"));
  EXPECT_THAT(named->Encode("<a><b>"), ElementsAre(128001, 128009));
  EXPECT_EQ(named->eos(), 128009);
  EXPECT_EQ(named->IdOf("<|end_of_text|>"), std::nullopt);
}
TEST(TiktokenRanks, RefusesByLine) {
  EXPECT_TRUE(LooksLikeTiktokenRanks("IQ== 0\nIg== 1\n"));
  EXPECT_FALSE(LooksLikeTiktokenRanks(ReadRunfile(kGolden + "tiny/bpe.model")));
  EXPECT_THAT(
      Tokenizer::FromModelFile("IQ== 0\nIg== 1\n", "", "dir/x.tiktoken"),
      StatusIs(kNot,
               HasSubstr("dir/x.tiktoken: ranks of 2 tokens: how they split texts is only known "
                         "for files with 50256 (gpt2), 50280 (p50k), 100256 (cl100k), "
                         "128000 (llama3), 151643 (qwen), 199998 (o200k), 200000 (llama4), "
                         "248044 (qwen3.6) tokens; ")));
  EXPECT_THAT(
      TiktokenRanks::Parse("IQ== 0\n\nIg==\n", "x"),
      StatusIs(kBad, HasSubstr("x:3: expected a token's bytes in base64, a space and its rank")));
  EXPECT_THAT(TiktokenRanks::Parse("IQ== 0\nIQ== 1\n", "x"),
              StatusIs(kBad, HasSubstr("x:2: the token comes twice")));
  EXPECT_THAT(TiktokenRanks::Parse("IQ== 7\r\nIg== 7\r\n", "x"),
              StatusIs(kBad, HasSubstr("x:2: rank 7 comes twice")));
  EXPECT_THAT(TiktokenTokenModel({{{"a", 0}, {"b", int64_t{1} << 40}}}),
              StatusIs(kBad, HasSubstr("has id 1099511627776")));
}

TEST(TiktokenRanks, OfEqualNeighboursTheLowestRankJoinsFirst) {
  ASSERT_OK_AND_ASSIGN(
      const auto model,
      TiktokenTokenModel(
          {{{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"ab", 4}, {"abc", 5}, {"\xff", 6}}}));
  std::vector<int32_t> ids;
  const auto workspace = model->NewWorkspace();
  model->Encode("abca\xff", *workspace, ids);
  EXPECT_THAT(ids, ElementsAre(5, 0, 6));
}

}  // namespace
}  // namespace moonring::data
