#include "base/trace/last_operators.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonring::base {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(LastOperatorsTest, OldestFirstWithTheirSizes) {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({3, 4});
  EXPECT_THAT(LastOperators(), IsEmpty());
  KeepLastOperators(2);
  for (int i = 0; i < 3; ++i) at::relu(a);
  EXPECT_THAT(LastOperators(), SizeIs(2));
  at::sigmoid(a);
  EXPECT_EQ(LastOperators().back(), "aten::sigmoid [2, 3]");
  KeepLastOperators(40);
  at::mm(a, b);  // also records the operators that it calls
  EXPECT_EQ(LastOperators().front(), "aten::mm [2, 3] [3, 4]");
  EXPECT_THROW(at::mm(a, a), c10::Error);
  EXPECT_EQ(LastOperators().back(), "aten::mm [2, 3] [2, 3]");
}

}  // namespace
}  // namespace moonring::base
