#include "comm/trace/last_operators.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonring::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LastOperatorsTest, OldestFirstWithTheirSizes) {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3, 4});
  EXPECT_THAT(LastOperators(), IsEmpty());
  KeepLastOperators(2);
  at::relu(a);
  at::mm(a, b);
  const at::Tensor sum = a.add(1);
  EXPECT_THAT(LastOperators(), ElementsAre("aten::mm [2, 3] [3, 4]", "aten::add [2, 3] []"));
  EXPECT_THROW(at::mm(a, a), c10::Error);
  EXPECT_EQ(LastOperators().back(), "aten::mm [2, 3] [2, 3]");
}

}  // namespace
}  // namespace moonring::comm
