#include "kernels/products/product_choice.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::kernels {
namespace {

using ::testing::HasSubstr;

TEST(ProductChoiceTest, IsMklWhereNothingIsSaid) {
  const ProductChoice choice;
  EXPECT_FALSE(choice.TakesOneDnn(ProductForm::kForward));
  EXPECT_EQ(ToString(choice), "mkl");
}

TEST(ProductChoiceTest, EveryChoiceIsReadAsItIsWritten) {
  for (unsigned forms = 0; forms < (1U << kProductForms); ++forms) {
    ProductChoice choice;
    for (size_t i = 0; i < kProductForms; ++i) choice.onednn[i] = (forms >> i & 1U) != 0;
    const auto read = ParseProductChoice(ToString(choice));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, choice) << ToString(choice);
  }
}

TEST(ProductChoiceTest, NamesWhatMayBeWritten) {
  for (const std::string text : {"", "auto", "MKL", "onednn:", "onednn:forward+", "onednn:wide"}) {
    const auto read = ParseProductChoice(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("weight_gradient")) << text;
  }
}

TEST(ProductChoiceTest, TakesWhatIsFasterByMoreThanNoise) {
  EXPECT_EQ(ToString(ChooseProducts({})), "mkl");
  EXPECT_EQ(ToString(ChooseProducts({{ProductForm::kForward, 1.0, 0.45},
                                     {ProductForm::kInputGradient, 1.0, 0.97},
                                     {ProductForm::kWeightGradient, 1.0, 1.2},
                                     {ProductForm::kNarrowForward, 1.0, std::nullopt},
                                     {ProductForm::kNarrowWeightGradient, 2e-3, 1e-3}})),
            "onednn:forward+narrow_weight_gradient");
}

TEST(ProductChoiceTest, AllTimingsOfAFormMustSaySo) {
  EXPECT_EQ(ToString(ChooseProducts({{ProductForm::kForward, 1.0, 0.4},
                                     {ProductForm::kForward, 1.0, 1.1},
                                     {ProductForm::kInputGradient, 1.0, 0.5},
                                     {ProductForm::kInputGradient, 3.0, 0.5}})),
            "onednn:input_gradient");
}

}  // namespace
}  // namespace moonring::kernels
