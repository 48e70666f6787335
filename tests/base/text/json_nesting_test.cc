#include "base/text/json_nesting.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace moonring::base {
namespace {

using ::moonring::testing::IsOk;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

std::string Brackets(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonNestingTest, CountsWhatIsOpenAtOnce) {
  EXPECT_THAT(CheckJsonNesting(Brackets(kMostJsonNesting)), IsOk());
  EXPECT_THAT(CheckJsonNesting(Brackets(kMostJsonNesting + 1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("nested more than 500 deep (at byte 500)")));
  std::string beside;
  for (int i = 0; i < 2 * kMostJsonNesting; ++i) beside += "{\"a\": []}, ";
  EXPECT_THAT(CheckJsonNesting(beside), IsOk());
}

TEST(JsonNestingTest, ATextsBracketsAreNone) {
  EXPECT_THAT(CheckJsonNesting("\"" + std::string(1000, '[') + "\""), IsOk());
  EXPECT_THAT(CheckJsonNesting("\"\\\"" + std::string(1000, '[') + "\""), IsOk());
  EXPECT_FALSE(CheckJsonNesting("\"\\\\\"" + std::string(1000, '[')).ok());
}

}  // namespace
}  // namespace moonring::base
