#include "model/config/stored_dtype.h"

#include <gtest/gtest.h>

namespace moonring::model {
namespace {

TEST(StoredDtypeTest, ReadsBothKeysAndKnowsNoOthers) {
  EXPECT_EQ(StoredDtype(R"({"torch_dtype": "bfloat16"})"), "bf16");
  EXPECT_EQ(StoredDtype(R"({"dtype": "float16", "torch_dtype": "bfloat16"})"), "fp16");
  EXPECT_EQ(StoredDtype(R"({"dtype": "float64"})"), "fp64");
  EXPECT_EQ(StoredDtype(R"({"dtype": null, "torch_dtype": "bfloat16"})"), "bf16");
  EXPECT_EQ(StoredDtype(R"({"hidden_size": 8})"), "fp32");
  EXPECT_EQ(StoredDtype("[1]"), "fp32");
  EXPECT_EQ(StoredDtype("no JSON"), "fp32");
}

}  // namespace
}  // namespace moonring::model
