#include "lua/bindings/yaml_text.h"

#include <cmath>
#include <limits>
#include <map>
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

// Numbers are parsed as by OmegaConf 2.3 with PyYAML 6, which LLaMA-Factory uses.
TEST(YamlTextTest, NumbersAreThoseOfPyYamlAndOmegaConf) {
  const std::map<std::string, json> numbers = {
      {"32_768", 32768.0}, {"1_000.5", 1000.5}, {"0x10", 16.0},
      {"0b101", 5.0},      {"017", 15.0},       {"0", 0.0},
      {"-1_0", -10.0},     {"+3", 3.0},         {"2e-5", 2e-5},
      {"1e3", 1000.0},     {"1.0E+2", 100.0},   {".5", 0.5},
      {"5.", 5.0},         {"1:30", 90.0},      {"1:30:05", 5405.0},
      {"089", 89.0},       {"0x", "0x"},        {"0xg", "0xg"},
      {"1:60", "1:60"},    {"e5", "e5"},        {"1e", "1e"},
      {"_1", "_1"},        {"inf", "inf"},      {"-inf", "-inf"},
      {"nan", "nan"},      {"1.2.3", "1.2.3"},  {"2024-01-02", "2024-01-02"},
      {"1d", "1d"},        {"yes", "yes"},      {"off", "off"},
      {"-", "-"}};
  for (const auto& [text, wanted] : numbers) {
    ASSERT_OK_AND_ASSIGN(const YamlDocument document, ParseYaml("[" + text + ", '7']", "c.yaml"));
    EXPECT_EQ(document.value[0], wanted) << text;
    EXPECT_EQ(document.value[1], "7");
  }
  ASSERT_OK_AND_ASSIGN(const YamlDocument infinite, ParseYaml("[.inf, -.inf, .nan]", "c.yaml"));
  EXPECT_EQ(infinite.value[0], std::numeric_limits<double>::infinity());
  EXPECT_EQ(infinite.value[1], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(infinite.value[2].get<double>()));
}

TEST(YamlTextTest, ScalarsOfTheOutermostMapAreKeptAsTheyAreWritten) {
  ASSERT_OK_AND_ASSIGN(const YamlDocument document,
                       ParseYaml("a: 1e5\nb: 'x'\nc: [1]\nd: 007\ne:\n", "c.yaml"));
  EXPECT_THAT(document.texts, ElementsAre(Pair("a", "1e5"), Pair("b", "x"), Pair("d", "007")));
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
