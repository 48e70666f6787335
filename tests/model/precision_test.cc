#include "model/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

TEST(PrecisionTest, EachWordHasTwoDtypes) {
  const auto expect = [](const char* word, at::ScalarType weight, at::ScalarType matmul) {
    const auto options = OptionsOfPrecision(word);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->weight_dtype, weight) << word;
    EXPECT_EQ(options->matmul_dtype, matmul) << word;
  };
  expect("fp32", at::kFloat, at::kFloat);
  expect("bf16", at::kFloat, at::kBFloat16);
  expect("fp16", at::kFloat, at::kHalf);
  expect("pure_bf16", at::kBFloat16, at::kBFloat16);
  expect("fp64", at::kDouble, at::kDouble);
  EXPECT_THAT(OptionsOfPrecision("pure_fp16"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("got 'pure_fp16'")));
}

}  // namespace
}  // namespace moonring::model
