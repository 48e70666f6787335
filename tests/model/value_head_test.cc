#include "model/value_head.h"

#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/adapted_models.h"
#include "tests/testing/all_close.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::ScratchFolder;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ValueHeadTest, NewSavedAndRead) {
  const ScratchFolder scratch;
  ModelConfig config = SmallConfig();
  ASSERT_OK_AND_ASSIGN(const auto fresh,
                       ValueHead::Open(scratch.path(), config, 3, at::kFloat, at::kCPU));
  EXPECT_FALSE(fresh->found);
  EXPECT_EQ(fresh->dropout, 0.1);
  EXPECT_EQ(fresh->weight_1D->weight().sizes(), at::IntArrayRef({1, 16}));
  EXPECT_LE(fresh->weight_1D->weight().abs().max().item<double>(), 0.25);
  EXPECT_GT(fresh->weight_1D->weight().abs().max().item<double>(), 0.1);
  EXPECT_FALSE(BitEqual(
      fresh->weight_1D->weight(),
      (*ValueHead::Open(scratch.path(), config, 4, at::kFloat, at::kCPU))->weight_1D->weight()));
  ASSERT_OK(fresh->Save(scratch.path()));
  config.json = R"({"summary_dropout_prob": 0})";
  ASSERT_OK_AND_ASSIGN(const auto read,
                       ValueHead::Open(scratch.path(), config, 4, at::kDouble, at::kCPU));
  EXPECT_TRUE(read->found);
  EXPECT_EQ(read->dropout, 0.0);
  EXPECT_TRUE(BitEqual(read->weight_1D->weight(), fresh->weight_1D->weight().to(at::kDouble)));
  EXPECT_TRUE(BitEqual(read->bias_1->weight(), fresh->bias_1->weight().to(at::kDouble)));
  config.hidden_size = 8;
  EXPECT_THAT(
      ValueHead::Open(scratch.path(), config, 4, at::kFloat, at::kCPU),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("v_head.summary.weight: shape [1, 16], this model requires [1, 8]")));
}

// The error names the file that contains the config: in the model's folder, in a .gguf file, or,
// for an adapter, in the folder of the base model.
TEST(ValueHeadTest, NamesWhereTheRateIs) {
  const ScratchFolder scratch;
  ModelConfig config = SmallConfig();
  config.json = R"({"summary_dropout_prob": 1.5})";
  const auto expect_named = [&](const std::string& dir, const std::string& place) {
    EXPECT_THAT(ValueHead::Open(dir, config, 4, at::kFloat, at::kCPU),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         StartsWith(place + ": summary_dropout_prob: 1.5, expected 0 or more")));
  };
  const std::string gguf = scratch.Write("m.gguf", "");
  expect_named(gguf, gguf);
  expect_named(scratch.path(), "the model's config.json");
  expect_named(scratch.path(), scratch.Write("config.json", config.json));
}

}  // namespace
}  // namespace moonring::model
