// Finds the ids beyond a vocabulary, in all documents of all examples.
#include "data/example_ids.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ExampleIdsTest, EachOnceAndAscendingFromTheFirstOn) {
  const std::vector<Example> examples = {
      {.documents = {{.ids = {5, 9, 2}}, {.ids = {12, 9}}}},
      {.documents = {{.ids = {}}, {.ids = {10, 5}}}},
  };
  EXPECT_THAT(IdsFrom(examples, 9), ElementsAre(9, 10, 12)) << "9 itself is one";
  EXPECT_THAT(IdsFrom(examples, 10), ElementsAre(10, 12));
  EXPECT_THAT(IdsFrom(examples, 13), IsEmpty());
  EXPECT_THAT(IdsFrom({}, 0), IsEmpty());
}

}  // namespace
}  // namespace moonring::data
