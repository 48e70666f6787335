// JSON in the format of Python 3.11. The expected texts were printed by
// json.dumps(json.loads(text), ensure_ascii=False) and str.
#include "data/text/json/python_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace moonring::data {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

std::string Written(const char* text) { return PythonJson(*ParseOrderedJson(text)); }

TEST(PythonJsonTest, WritesNumbers) {
  EXPECT_EQ(
      Written("[1, -0, 1.0, -0.0, 2.50, 0.1, 1e2, 100000000000000000000.0, 123456789012345678]"),
      "[1, 0, 1.0, -0.0, 2.5, 0.1, 100.0, 1e+20, 123456789012345678]");
  EXPECT_EQ(Written("[1e15, 1e16, 1.5e16, 123456789.125, 1e-4, 1e-5, 1.25e-7, 5e-324, "
                    "1.7976931348623157e308]"),
            "[1000000000000000.0, 1e+16, 1.5e+16, 123456789.125, 0.0001, 1e-05, 1.25e-07, 5e-324, "
            "1.7976931348623157e+308]");
}

TEST(PythonJsonTest, KeepsOrderAndText) {
  EXPECT_EQ(
      Written(
          R"({"b":[],"a":{},"c":[true,null,{"z":1,"y":"\u00fc \n\t\u0001\u007f/\" \\ \u4f60"}],)"
          R"("b":2})"),
      "{\"b\": 2, \"a\": {}, \"c\": [true, null, {\"z\": 1, \"y\": \"ü \\n\\t\\u0001\x7f/\\\" \\\\ "
      "你\"}]}");
  EXPECT_EQ(PythonJson(*ParseOrderedJson(R"({"a":[1,{"b":[]}],"c":{}})"), 4),
            "{\n    \"a\": [\n        1,\n        {\n            \"b\": []\n        }\n    ],\n    "
            "\"c\": {}\n}");
}

TEST(PythonJsonTest, IsTextAndTruth) {
  EXPECT_EQ(PythonText(*ParseOrderedJson(
                R"(["string", null, true, 1.0, "it's", "\"", "it's \"", {"a": "\n\\"}])")),
            R"(['string', None, True, 1.0, "it's", '"', 'it\'s "', {'a': '\n\\'}])");
  EXPECT_EQ(PythonText("a b"), "a b");
  for (const char* no : {"null", "false", "0", "0.0", "\"\"", "[]", "{}"})
    EXPECT_FALSE(PythonTruth(*ParseOrderedJson(no))) << no;
  for (const char* yes : {"true", "1", "\" \"", "[0]", "{\"a\": null}"})
    EXPECT_TRUE(PythonTruth(*ParseOrderedJson(yes))) << yes;
}

TEST(PythonJsonTest, HasPythonsNonFiniteNumbers) {
  EXPECT_EQ(Written(R"({"a": NaN, "b": [-1, Infinity, "NaN"], "c": -Infinity})"),
            R"({"a": NaN, "b": [-1, Infinity, "NaN"], "c": -Infinity})");
  EXPECT_EQ(PythonText(*ParseOrderedJson("[NaN, Infinity, -Infinity]")), "[nan, inf, -inf]");
  EXPECT_THAT(ParseOrderedJson("[Nan]").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("column 2: syntax error")));
}

TEST(PythonJsonTest, NamesWhatIsWrong) {
  EXPECT_THAT(ParseOrderedJson("{\"a\" 1}").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not valid JSON: parse error at line 1, column 6")));
  EXPECT_THAT(ParseOrderedJson("").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not valid JSON")));
}

}  // namespace
}  // namespace moonring::data
