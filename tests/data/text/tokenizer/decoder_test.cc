// Decoders give the same texts as the tokenizers library (stages_golden.json).
#include "data/text/tokenizer/decoder.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/testing/runfiles.h"
#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using moonring::testing::ReadRunfile;
using moonring::testing::StatusIs;
using nlohmann::json;
using ::testing::HasSubstr;

std::string Decoded(const Decoder& decoder, const std::vector<std::string>& tokens) {
  Decoder::Pieces pieces;
  for (const std::string& token : tokens) pieces.Add(decoder.Token(token));
  return decoder.Join(pieces);
}

TEST(Decoder, DecodesAsTheLibraryDoes) {
  const json golden =
      json::parse(ReadRunfile("tests/data/text/tokenizer/stages_golden.json"))["decoders"];
  ASSERT_GT(golden.size(), 100);
  for (const json& test_case : golden) {
    ASSERT_OK_AND_ASSIGN(const auto made, Decoder::FromJson(test_case["description"], "decoder"));
    EXPECT_EQ(Decoded(*made, test_case["tokens"].get<std::vector<std::string>>()),
              test_case["text"].get<std::string>())
        << test_case;
  }
}

// A case in which the tokenizers library accesses memory out of bounds.
TEST(Decoder, StripOfATokenThatIsAllContent) {
  ASSERT_OK_AND_ASSIGN(
      const auto made,
      Decoder::FromJson({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 2}}, ""));
  EXPECT_EQ(Decoded(*made, {" ", "", "   ", "a  b "}), "a  b");
}

TEST(Decoder, RefusesByNameAndPlace) {
  const auto refusal = [](const json& description) {
    return Decoder::FromJson(description, "t.json: decoder").status();
  };
  EXPECT_THAT(
      refusal({{"type", "Sequence"}, {"decoders", {{{"type", "Fuse"}}, {{"type", "CTC"}}}}}),
      StatusIs(absl::StatusCode::kUnimplemented,
               HasSubstr("t.json: decoder.decoders[1]: decoder type \"CTC\" is not supported")));
  EXPECT_THAT(refusal(nullptr), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("expected an object, found null")));
  EXPECT_THAT(refusal({{"type", "Strip"}, {"content", "ab"}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("decoder.content: expected one character, found \"ab\"")));
  EXPECT_THAT(refusal({{"type", "Strip"}, {"content", "a"}, {"start", 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no \"stop\"")));
  EXPECT_THAT(refusal({{"type", "Replace"}, {"pattern", {{"String", "a"}}}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no \"content\"")));
  const json growing = {
      {"type", "Replace"}, {"pattern", {{"Regex", "."}}}, {"content", std::string(2000, 'a')}};
  EXPECT_THAT(
      refusal({{"type", "Sequence"}, {"decoders", {growing, growing}}}),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr("t.json: decoder.decoders[1]: with this Replace the chain could make a text")));
}

}  // namespace
}  // namespace moonring::data
