#include "lua/yaml_text.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/status_matchers.h"

namespace moonring::lua {
namespace {

using ::moonring::testing::StatusIs;
using ::nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr auto kBad = absl::StatusCode::kInvalidArgument;

TEST(YamlTextTest, ScalarsAreWhatTheyLookLike) {
  ASSERT_OK_AND_ASSIGN(const YamlDocument document,
                       ParseYaml("rate: 1.0e-4\nname: sft\nbf16: true\ntext: \"1\"\nnone: "
                                 "~\nempty:\nlist: [1, x, {y: null}]\ntwice: {a: 1, a: }\n",
                                 "c.yaml"));
  EXPECT_EQ(
      document.value,
      json::parse(
          R"({"rate": 1e-4, "name": "sft", "bf16": true, "text": "1", "none": null, "empty": null,
              "list": [1.0, "x", {"y": null}], "twice": {"a": null}})"));
  ASSERT_OK_AND_ASSIGN(const YamlDocument short_one,
                       ParseYaml("# a comment\na: 1\n\nb: 2\n", "c.yaml"));
  EXPECT_THAT(short_one.lines, ElementsAre(Pair("a", 2), Pair("b", 4)));
  EXPECT_THAT(ParseYaml("a: [1\nb: 2\n", "c.yaml"), StatusIs(kBad, HasSubstr("c.yaml:2:")));
  EXPECT_THAT(ParseYaml("a: 1\nb: 2\na: 3\n", "c.yaml"),
              StatusIs(kBad, HasSubstr("c.yaml:3: key 'a' a second time, first on line 1")));
}

TEST(YamlTextTest, AliasesAreBounded) {
  ASSERT_OK_AND_ASSIGN(const YamlDocument document, ParseYaml("a: &x [1, 2]\nb: *x\n", "c.yaml"));
  EXPECT_EQ(document.value["b"], document.value["a"]);
  EXPECT_THAT(ParseYaml("a: &x [*x]\n", "c.yaml"),
              StatusIs(kBad, HasSubstr("more than 100 values within one another")));
  std::string bomb = "a0: &a0 x\n";
  for (int i = 1; i < 10; ++i) {
    const std::string inner = absl::StrCat("*a", i - 1, ", ");
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [", inner, inner, inner, inner, inner, inner, inner,
                    inner, "]\n");
  }
  EXPECT_THAT(ParseYaml(bomb, "c.yaml"),
              StatusIs(kBad, HasSubstr("values, aliases counted each time")));
}

TEST(YamlTextTest, DepthIsBounded) {
  const auto lists = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(ParseYaml(lists(100), "c.yaml").ok());
  EXPECT_THAT(ParseYaml(lists(102), "c.yaml"),
              StatusIs(kBad, HasSubstr("c.yaml:1:102: more than 100 values within one another")));
  EXPECT_THAT(ParseYaml(lists(1'000'000), "c.yaml"), StatusIs(kBad, HasSubstr("not valid YAML")));
}

}  // namespace
}  // namespace moonring::lua
