// Byte-pair encoding compared with its definition: repeatedly merge the adjacent pair of lowest
// rank, the leftmost one if there are several.
#include "data/text/tokenizer/bpe.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/text/tokenizer/byte_alphabet.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using moonring::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Merges = std::vector<std::pair<std::string, std::string>>;

// A small vocabulary: the letters a to d and random merges of existing tokens, in the order of
// their ids.
struct Toy {
  std::vector<std::string> tokens = {"a", "b", "c", "d"};
  Merges merges;

  BpeOptions Options() const {
    BpeOptions options;
    for (size_t i = 0; i < tokens.size(); ++i)
      options.vocabulary.emplace_back(tokens[i], static_cast<int64_t>(i));
    for (const auto& [left, right] : merges) options.merges.emplace_back(left, right);
    return options;
  }
};

Toy RandomToy(std::mt19937& random, int merges) {
  Toy toy;
  while (static_cast<int>(toy.merges.size()) < merges) {
    const std::string left = toy.tokens[random() % toy.tokens.size()],
                      right = toy.tokens[random() % toy.tokens.size()];
    const std::pair<std::string, std::string> merge(left, right);
    if (left.size() + right.size() > 6 || std::count(toy.merges.begin(), toy.merges.end(), merge))
      continue;
    toy.merges.push_back(merge);
    if (!std::count(toy.tokens.begin(), toy.tokens.end(), left + right))
      toy.tokens.push_back(left + right);
  }
  return toy;
}

std::vector<std::string> MergedByDefinition(const Toy& toy, const std::string& word) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  for (size_t rank = 0; rank < toy.merges.size();) {
    size_t at = 0;
    while (at + 1 < parts.size() && std::pair(parts[at], parts[at + 1]) != toy.merges[rank]) ++at;
    if (at + 1 >= parts.size()) {
      ++rank;
      continue;
    }
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    rank = 0;
  }
  return parts;
}

std::vector<int32_t> Encoded(const Bpe& bpe, absl::string_view word) {
  Bpe::Workspace workspace;
  std::vector<int32_t> ids, again;
  bpe.Encode(word, workspace, ids);
  bpe.Encode(word, workspace, again);
  EXPECT_EQ(ids, again) << "a remembered word differs";
  return ids;
}

TEST(Bpe, MergesAsDefined) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const Toy toy = RandomToy(random, 1 + static_cast<int>(random() % 25));
    ASSERT_OK_AND_ASSIGN(const auto bpe, Bpe::Create(toy.Options()));
    for (int i = 0; i < 20; ++i) {
      std::string word(random() % 40, 'a');
      for (char& c : word) c = static_cast<char>('a' + random() % 4);
      std::vector<std::string> tokens;
      for (const int32_t id : Encoded(*bpe, word)) tokens.push_back(*bpe->TokenOf(id));
      ASSERT_EQ(tokens, MergedByDefinition(toy, word)) << word;
    }
  }
}

TEST(Bpe, UnknownBytes) {
  Toy toy{{"a", "b", "?", "ab"}, {{"a", "b"}}};
  BpeOptions options = toy.Options();
  ASSERT_OK_AND_ASSIGN(const auto dropping, Bpe::Create(options));
  EXPECT_THAT(Encoded(*dropping, "axxb"), ElementsAre(3))
      << "without unk_token the library drops the byte, and its neighbours meet";
  EXPECT_THAT(Encoded(*dropping, "xx"), ElementsAre());
  options.unknown = "?";
  ASSERT_OK_AND_ASSIGN(const auto each, Bpe::Create(options));
  EXPECT_THAT(Encoded(*each, "xxab"), ElementsAre(2, 2, 3));
  options.fuse_unknown = true;
  ASSERT_OK_AND_ASSIGN(const auto fused, Bpe::Create(options));
  EXPECT_THAT(Encoded(*fused, "xxabxx"), ElementsAre(2, 3, 2));
}

TEST(Bpe, IgnoreMergesTakesWholeWords) {
  Toy toy{{"a", "b", "aba"}, {}};
  BpeOptions options = toy.Options();
  options.ignore_merges = true;
  ASSERT_OK_AND_ASSIGN(const auto bpe, Bpe::Create(options));
  EXPECT_THAT(Encoded(*bpe, "aba"), ElementsAre(2));
  EXPECT_THAT(Encoded(*bpe, "abab"), ElementsAre(0, 1, 0, 1));
}

// A vocabulary of single characters, the unknown token "?", sentencepiece's space and some bytes.
BpeOptions Characters() {
  BpeOptions options;
  options.alphabet = BpeAlphabet::kCharacters;
  options.vocabulary = {{"?", 0},      {"a", 1},       {"\u6f22", 2}, {"a\u6f22", 3},
                        {"\u2581", 4}, {"\u2581a", 5}, {"<0xC3>", 6}, {"<0xA9>", 7}};
  options.merges = {{"\u2581", "a"}, {"a", "\u6f22"}};
  return options;
}

TEST(Bpe, CharactersFallBackToBytes) {
  BpeOptions options = Characters();
  options.byte_fallback = true;
  ASSERT_OK_AND_ASSIGN(const auto dropping, Bpe::Create(options));
  EXPECT_THAT(Encoded(*dropping, "a\u6f22\u00e9a"), ElementsAre(3, 6, 7, 1));
  EXPECT_THAT(Encoded(*dropping, "axa\u6f22"), ElementsAre(1, 3))
      << "not all bytes of x have a token, and there is no unk_token";
  options.unknown = "?";
  ASSERT_OK_AND_ASSIGN(const auto each, Bpe::Create(options));
  EXPECT_THAT(Encoded(*each, "xya"), ElementsAre(0, 0, 1));
  EXPECT_THAT(Encoded(*each, "x\u00e9a"), ElementsAre(6, 7, 0, 1))
      << "the library writes the unknown token late";
  options.fuse_unknown = true;
  ASSERT_OK_AND_ASSIGN(const auto fused, Bpe::Create(options));
  EXPECT_THAT(Encoded(*fused, "xy\u00e9za"), ElementsAre(6, 7, 0, 1));
  options.byte_fallback = false;
  ASSERT_OK_AND_ASSIGN(const auto no_bytes, Bpe::Create(options));
  EXPECT_THAT(Encoded(*no_bytes, "a\u00e9"), ElementsAre(1, 0));
}

// A text is split before spaces only where that does not change the result.
TEST(Bpe, SpacesDoNotMatter) {
  BpeOptions options = Characters();
  options.unknown = "?";
  const auto encoded = [&](absl::string_view word) {
    return Encoded(**Bpe::Create(options), word);
  };
  EXPECT_EQ(encoded("a\u2581\u2581a\u6f22\u2581a\u6f22"), (std::vector<int32_t>{1, 4, 5, 2, 5, 2}));
  options.vocabulary.push_back({"\u2581a\u6f22", 8});
  options.ignore_merges = true;
  EXPECT_EQ(encoded("\u2581a\u6f22"), std::vector<int32_t>{8});
  EXPECT_EQ(encoded("a\u2581a\u6f22"), (std::vector<int32_t>{1, 5, 2}))
      << "a part of a word is no word";
  options.vocabulary.push_back({"a\u2581", 9});
  options.merges.insert(options.merges.begin(), {"a", "\u2581"});
  EXPECT_EQ(encoded("a\u2581a\u6f22"), (std::vector<int32_t>{9, 3}));
  options.vocabulary.push_back({"<0xA9>\u2581", 10});
  options.merges.push_back({"<0xA9>", "\u2581"});
  options.byte_fallback = true;
  EXPECT_EQ(encoded("a\u00e9\u2581"), (std::vector<int32_t>{1, 6, 10}))
      << "a byte's token ends with another character than the text";
  options = Characters();
  options.vocabulary.push_back({"\u2581\u2581", 8});
  options.merges.push_back({"\u2581", "\u2581"});
  EXPECT_EQ(encoded("\u2581x\u2581"), std::vector<int32_t>{8})
      << "what is dropped makes neighbours of others";
}

TEST(Bpe, RefusesBadVocabularies) {
  const auto refusal = [](const Toy& toy) { return Bpe::Create(toy.Options()).status(); };
  EXPECT_THAT(refusal({{"a", "b"}, {{"a", "b"}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("merges[0] (\"a\" and \"b\"): \"ab\" is not in the vocabulary")));
  EXPECT_THAT(
      refusal({{"a", "b"}, {{"a", "x"}}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"x\" is not in the vocabulary")));
  BpeOptions options;
  options.vocabulary = {{"a", 0}, {"b", 0}};
  EXPECT_THAT(Bpe::Create(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("tokens \"a\" and \"b\" both have id 0")));
  options.vocabulary = {{"a", -1}};
  EXPECT_THAT(Bpe::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("token \"a\" has id -1")));
  options.vocabulary = {{"a", int64_t{1} << 40}};
  EXPECT_THAT(Bpe::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has id 1099511627776")));
  options.vocabulary = {{"a", 0}};
  options.unknown = "?";
  EXPECT_THAT(Bpe::Create(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("unk_token \"?\" is not in the vocabulary")));
}

// A long word takes less than quadratic time: both passes take 0.3 s, while a quadratic merge of
// 2^20 bytes would take an hour, longer than the test's time limit.
TEST(Bpe, ALongWordTakesNoQuadraticTime) {
  std::mt19937 random(2);
  const Toy toy = RandomToy(random, 60);
  ASSERT_OK_AND_ASSIGN(const auto bpe, Bpe::Create(toy.Options()));
  std::string word(1 << 20, 'a');
  for (char& c : word) c = static_cast<char>('a' + random() % 4);
  const std::vector<int32_t> ids = Encoded(*bpe, word);
  size_t bytes = 0;
  for (const int32_t id : ids) bytes += bpe->TokenOf(id)->size();
  EXPECT_EQ(bytes, word.size());
}

// A long text that is one word and cannot be split takes less than quadratic time too.
TEST(Bpe, ALongTextTakesNoQuadraticTime) {
  std::mt19937 random(3);
  const Toy toy = RandomToy(random, 60);
  BpeOptions options = toy.Options();
  options.alphabet = BpeAlphabet::kCharacters;
  ASSERT_OK_AND_ASSIGN(const auto bpe, Bpe::Create(options));
  std::string text(1 << 20, 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 4);
  const std::vector<int32_t> ids = Encoded(*bpe, text);
  ASSERT_OK_AND_ASSIGN(const auto bytes, Bpe::Create(toy.Options()));
  EXPECT_EQ(ids, Encoded(*bytes, text));
}

TEST(ByteAlphabet, IsOneToOne) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(BytesOfLetters(LettersOfBytes(all)), all);
  EXPECT_EQ(LettersOfBytes(" \n\xAD"), "\u0120\u010A\u0143");
  EXPECT_EQ(BytesOfLetters("a b"), std::nullopt);  // a space is represented by U+0120
  EXPECT_EQ(BytesOfLetters("\u6f22"), std::nullopt);
}

}  // namespace
}  // namespace moonring::data
