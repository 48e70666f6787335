#include "comm/trace/last_operators.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonring::comm {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(LastOperatorsTest, OldestFirstWithTheirSizes) {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3, 4});
  EXPECT_THAT(LastOperators(), IsEmpty());
  KeepLastOperators(2);
  at::relu(a);
  at::sigmoid(a);
  at::mm(a, b);
  // Operators that these call are among them.
  EXPECT_THAT(LastOperators(), SizeIs(2));
  EXPECT_EQ(LastOperators().back(), "aten::mm [2, 3] [3, 4]");
  EXPECT_THAT(LastOperators().front(), StartsWith("aten::"));
  EXPECT_THROW(at::mm(a, a), c10::Error);
  EXPECT_EQ(LastOperators().back(), "aten::mm [2, 3] [2, 3]");
}

}  // namespace
}  // namespace moonring::comm
