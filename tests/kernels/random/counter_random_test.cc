#include "kernels/random/counter_random.h"

#include <cmath>
#include <memory>
#include <set>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;

at::Tensor Identities(int64_t count) {
  return at::arange(count, at::kLong) * ((int64_t{1} << 31) + 7) + 3;
}

// Random numbers equal LibTorch's Philox with subsequence = identity and offset = j / 4.
TEST(CounterUniformTest, IsPhilox) {
  const uint64_t key = CounterKey(42, 7, "model.layers.3.mlp.down_proj");
  const at::Tensor identity = at::tensor(
      {int64_t{0}, int64_t{5}, int64_t{1} << 33, (int64_t{9} << 32) + (int64_t{1} << 31) + 8191},
      at::kLong);
  const at::Tensor numbers = CounterUniform(key, identity, 133);
  for (int64_t t = 0; t < identity.size(0); ++t) {
    at::philox_engine engine(key, identity[t].item<int64_t>(), 0);
    for (int64_t j = 0; j < 133; ++j) {
      const float wanted = static_cast<float>(engine() >> 8) * 0x1.0p-24f;
      ASSERT_EQ(numbers[t][j].item<float>(), wanted) << t << ", " << j;
    }
  }
}

// Expected values from an implementation of Philox in Python integers, which was verified with
// Random123's known answers.
TEST(CounterUniformTest, GoldenValues) {
  const at::Tensor numbers =
      CounterUniform(CounterKey(1, 2, "module"), at::tensor({int64_t{3}}, at::kLong), 4) * 0x1.0p24;
  const at::Tensor wanted =
      at::tensor({8348520.0f, 1344961.0f, 14466256.0f, 3221650.0f}, at::kFloat);
  EXPECT_TRUE(BitEqual(numbers[0], wanted)) << numbers;
  const at::Tensor initial = InitialUniform(1, "module", {2, 2}) * 0x1.0p24;
  EXPECT_TRUE(BitEqual(initial.flatten(),
                       at::tensor({9824605.0f, 15637834.0f, 2530542.0f, 9894385.0f}, at::kFloat)))
      << initial;
}

TEST(CounterUniformTest, ATokensNumbersDoNotDependOnItsRankOrRow) {
  const uint64_t key = CounterKey(0, 0, "q");
  const at::Tensor identity = Identities(300), whole = CounterUniform(key, identity, 65);
  const at::Tensor order = at::randperm(300);
  EXPECT_TRUE(BitEqual(CounterUniform(key, identity.index_select(0, order), 65),
                       whole.index_select(0, order)));
  const at::Tensor shards = at::cat({CounterUniform(key, identity.narrow(0, 0, 1), 65),
                                     CounterUniform(key, identity.narrow(0, 1, 0), 65),
                                     CounterUniform(key, identity.narrow(0, 1, 299), 65)});
  EXPECT_TRUE(BitEqual(shards, whole));
  EXPECT_TRUE(BitEqual(CounterUniform(key, identity, 7),
                       whole.narrow(1, 0, 7)));  // the width does not matter either
  EXPECT_TRUE(BitEqual(CounterUniform(key, identity.repeat({2}).slice(0, 0, 600, 2), 65),
                       CounterUniform(key, identity.repeat({2}), 65).slice(0, 0, 600, 2)));
}

TEST(CounterUniformTest, UniformAndIndependent) {
  const int64_t rows = 2000, width = 200;
  const at::Tensor x =
      CounterUniform(CounterKey(5, 6, "m"), Identities(rows), width).to(at::kDouble);
  EXPECT_GE(x.min().item<double>(), 0.0);
  EXPECT_LT(x.max().item<double>(), 1.0);
  const double n = static_cast<double>(x.numel());
  // The bounds are five standard deviations.
  EXPECT_NEAR(x.mean().item<double>(), 0.5, 5 * std::sqrt(1.0 / 12.0 / n));
  EXPECT_NEAR((x * x).mean().item<double>(), 1.0 / 3.0, 5 * std::sqrt(4.0 / 45.0 / n));
  const at::Tensor counts = x.flatten().histc(100, 0.0, 1.0),
                   expected = at::full_like(counts, n / 100);
  const double chi_squared = ((counts - expected).square() / expected).sum().item<double>();
  EXPECT_LT(std::fabs(chi_squared - 99), 5 * std::sqrt(2.0 * 99));
  const auto correlation = [&](const at::Tensor& a, const at::Tensor& b) {
    return ((a - 0.5) * (b - 0.5)).mean().item<double>() * 12.0;
  };
  const double bound = 5.0 / std::sqrt(n);
  EXPECT_LT(std::fabs(correlation(x.narrow(0, 0, rows - 1), x.narrow(0, 1, rows - 1))),
            bound);  // tokens
  EXPECT_LT(std::fabs(correlation(x.narrow(1, 0, width - 1), x.narrow(1, 1, width - 1))),
            bound);  // features
  for (const uint64_t other :
       {CounterKey(5, 7, "m"), CounterKey(6, 6, "m"), CounterKey(5, 6, "n")}) {
    EXPECT_LT(
        std::fabs(correlation(x, CounterUniform(other, Identities(rows), width).to(at::kDouble))),
        bound);
  }
}

TEST(CounterUniformTest, KeysDiffer) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t step = 0; step < 10; ++step) {
      for (int layer = 0; layer < 10; ++layer)
        keys.insert(CounterKey(seed, step, "model.layers." + std::to_string(layer)));
    }
  }
  EXPECT_EQ(keys.size(), 1000u);
}

TEST(CounterUniformTest, InitialValuesAreNoStepsNumbers) {
  const at::Tensor initial = InitialUniform(3, "w", {10, 100});
  EXPECT_TRUE(BitEqual(initial, InitialUniform(3, "w", {10, 100})));
  EXPECT_FALSE(BitEqual(initial, InitialUniform(3, "v", {10, 100})));
  EXPECT_FALSE(BitEqual(initial.flatten().unsqueeze(0),
                        CounterUniform(CounterKey(3, 0, "w"), at::zeros({1}, at::kLong), 1000)));
  EXPECT_NEAR(initial.mean().item<double>(), 0.5, 0.05);
}

TEST(CounterUniformTest, Refuses) {
  EXPECT_THROW(CounterUniform(0, at::zeros({2, 2}, at::kLong), 4), c10::Error);
  EXPECT_THROW(CounterUniform(0, at::zeros({2}, at::kInt), 4), c10::Error);
  EXPECT_THROW(CounterUniform(0, at::zeros({2}, at::kLong), -1), c10::Error);
  EXPECT_EQ(CounterUniform(0, at::zeros({0}, at::kLong), 4).sizes(), at::IntArrayRef({0, 4}));
}

// The implementation by tensor operators, which other devices use, gives the same bits on the CPU.
TEST(CounterUniformTest, ByTensorOperationsTheSameBits) {
  const at::Tensor identity = at::cat(
      {Identities(40),
       at::tensor({int64_t{0}, (int64_t{9} << 32) + (int64_t{1} << 31) + 8191}, at::kLong)});
  for (const int64_t width : {1, 4, 37, 200}) {
    EXPECT_TRUE(BitEqual(internal::CounterUniformByTensors(0xFEDCBA9876543210u, identity, width),
                         CounterUniform(0xFEDCBA9876543210u, identity, width)));
  }
}

// The implementation by tensor operators calls few operators. Views do not count, because they cost
// a device nothing.
TEST(CounterUniformTest, ByTensorOperationsTakesFewOperators) {
  static const std::set<std::string> kViews = {
      "aten::view",      "aten::slice",      "aten::select",        "aten::narrow",
      "aten::unsqueeze", "aten::expand",     "aten::as_strided",    "aten::contiguous",
      "aten::empty",     "aten::empty_like", "aten::empty_strided", "aten::to"};
  static thread_local int operators = 0;
  const auto count = [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
    if (!kViews.contains(call.name())) ++operators;
    return nullptr;
  };
  const at::Tensor identity = Identities(3);
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}));
  operators = 0;
  internal::CounterUniformByTensors(1, identity, 64);
  at::removeCallback(handle);
  EXPECT_GE(operators, 40);  // the calls were counted
  EXPECT_LE(operators, 66);
}

// On a device, rows are generated in groups of at most 2^24 numbers.
TEST(CounterUniformTest, ByTensorOperationsInSeveralTurns) {
  const at::Tensor identity = Identities(3);
  const int64_t width = (int64_t{1} << 23) + 3;
  EXPECT_TRUE(BitEqual(internal::CounterUniformByTensors(9, identity, width),
                       CounterUniform(9, identity, width)));
}

}  // namespace
}  // namespace moonring::kernels
