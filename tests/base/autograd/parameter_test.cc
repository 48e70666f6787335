// Gradients that are added by rows, as an embedding's are, and what is refused.

#include "base/autograd/parameter.h"

#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moonring::base {
namespace {

std::string ErrorOfRows(Parameter parameter, const at::Tensor& index, const at::Tensor& rows) {
  try {
    parameter.AddGradientRows(index, rows);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(ParameterTest, AddsRowsOfTheGradient) {
  Parameter embedding("embed", at::zeros({3, 2}));
  embedding.AddGradientRows(at::tensor({2, 0, 2}, at::kLong), at::ones({3, 2}));
  embedding.AddGradientRows(at::tensor({0}, at::kLong), at::ones({1, 2}, at::kBFloat16));
  EXPECT_TRUE(at::equal(embedding.gradient(),
                        at::tensor({2., 2., 0., 0., 2., 2.}, at::kFloat).view({3, 2})));
}

TEST(ParameterTest, RefusesRowsThatDoNotFit) {
  const auto refuses = [](bool trainable, const at::Tensor& index, const at::Tensor& rows,
                          const char* message) {
    EXPECT_THAT(ErrorOfRows(Parameter("embed", at::zeros({3, 2}), trainable), index, rows),
                ::testing::HasSubstr(message));
  };
  const at::Tensor ids = at::tensor({2, 0}, at::kLong);
  refuses(false, ids, at::ones({2, 2}), "embed: a gradient for a frozen parameter");
  refuses(true, ids, at::ones({2, 1}), "embed: gradient rows of shape [2, 1], weight of shape [3");
  refuses(true, ids, at::ones({2}), "embed: gradient rows of shape [2], weight of shape [3, 2]");
  refuses(true, ids, at::ones({1, 2}), "embed: indices of shape [2] and dtype Long for gradient");
  refuses(true, ids.to(at::kInt), at::ones({2, 2}), "embed: indices of shape [2] and dtype Int");
}

}  // namespace
}  // namespace moonring::base
