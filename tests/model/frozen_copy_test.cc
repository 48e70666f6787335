#include "model/frozen_copy.h"

#include <memory>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model/transformer.h"
#include "tests/model/adapted_models.h"
#include "tests/testing/all_close.h"
#include "tests/testing/status_matchers.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;

class FrozenCopyTest : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, FrozenCopyTest, ::testing::ValuesIn(Kinds()), NameOf);

// A step on every weight of the adapter changes the model, and not its copy.
TEST_P(FrozenCopyTest, AnAdaptersCopyStays) {
  const ModelConfig config = SmallConfig();
  const Stream stream = RandomStream({9, 4}, config.vocab_size);
  Models models = MakeModels(config, GetParam().options);
  ASSERT_OK_AND_ASSIGN(const auto copy, FrozenCopy(*models.adapted, models.base.get()));
  const at::Tensor before = HiddenOf(*models.adapted, stream).detach();
  const auto& copied = copy->adapter()->parameters;
  ASSERT_EQ(copied.size(), models.adapter->parameters.size());
  for (size_t i = 0; i < copied.size(); ++i) {
    base::Parameter& own = *models.adapter->parameters[i];
    EXPECT_TRUE(BitEqual(copied[i]->weight(), own.weight())) << own.name();
    EXPECT_FALSE(copied[i]->weight().is_alias_of(own.weight())) << own.name();
    EXPECT_FALSE(copied[i]->trainable());
    EXPECT_TRUE(own.trainable());
    own.weight().mul_(1.5);
  }
  EXPECT_TRUE(BitEqual(HiddenOf(*copy, stream), before));
  EXPECT_FALSE(BitEqual(HiddenOf(*models.adapted, stream), before));
  EXPECT_FALSE(HiddenOf(*copy, stream).requires_grad());
  for (size_t i = 0; i < copy->parameters().size(); ++i)
    EXPECT_EQ(copy->parameters()[i], models.base->parameters()[i]);  // shared
}

TEST(FrozenCopyTest, AWholeModelsCopyStays) {
  const ModelConfig config = SmallConfig(/*tied=*/false);
  const Stream stream = RandomStream({9, 4}, config.vocab_size);
  ASSERT_OK_AND_ASSIGN(const auto model,
                       Transformer::Create(config, RandomWeights(config, at::kFloat), {}));
  ASSERT_OK_AND_ASSIGN(const auto copy, FrozenCopy(*model, nullptr));
  const at::Tensor before = HiddenOf(*model, stream).detach();
  for (const auto& parameter : model->parameters()) parameter->weight().mul_(0.5);
  EXPECT_TRUE(BitEqual(HiddenOf(*copy, stream), before));
  for (const auto& parameter : copy->parameters()) EXPECT_FALSE(parameter->trainable());
  EXPECT_TRUE(model->parameters().front()->trainable());
}

}  // namespace
}  // namespace moonring::model
