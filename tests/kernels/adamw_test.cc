#include "kernels/adamw.h"

#include <cmath>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "kernels/random/counter_random.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

constexpr AdamWFactors kFactors = {
    .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.98, .weight_decay = 0.1, .epsilon = 1e-8};

struct AdamWCase {
  at::ScalarType weight, state;
  bool odd = false;  // aligned to one element only
};

at::Tensor Filled(int64_t count, at::ScalarType dtype, bool odd, const at::Tensor& values) {
  at::Tensor tensor = at::empty({count + 1}, dtype).narrow(0, odd ? 1 : 0, count);
  return tensor.copy_(values);
}

AdamWTensors RandomStates(const AdamWCase& c, const std::vector<int64_t>& counts) {
  AdamWTensors tensors;
  const at::ScalarType wide = c.weight == at::kDouble ? at::kDouble : at::kFloat;
  int step = 1;
  for (const int64_t count : counts) {
    const auto normal = [&] { return at::randn({count}, at::kDouble); };
    tensors.weights.push_back(Filled(count, c.weight, c.odd, normal()));
    tensors.gradients.push_back(Filled(count, wide, c.odd, normal()));
    tensors.means.push_back(Filled(count, c.state, c.odd, normal() * 0.3));
    tensors.squares.push_back(Filled(count, c.state, c.odd, normal().square() * 0.5));
    tensors.steps.push_back(at::full({}, static_cast<double>(step++), at::kFloat));
    if (c.state != at::kBFloat16) continue;
    tensors.keys.push_back(77 + step);
    tensors.places.push_back(1000 * step + (c.odd ? 3 : 0));
  }
  return tensors;
}

// The expected update of one tensor, computed in fp64.
struct Stepped {
  at::Tensor weight, mean, square;
};
Stepped StepInFp64(const AdamWTensors& tensors, size_t i, const AdamWFactors& f) {
  const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
  const at::Tensor g = wide(tensors.gradients[i]),
                   m = f.beta1 * wide(tensors.means[i]) + (1.0 - f.beta1) * g,
                   v = f.beta2 * wide(tensors.squares[i]) + (1.0 - f.beta2) * g * g;
  const double t = tensors.steps[i].item<double>();
  const at::Tensor step =
      m / (1.0 - std::pow(f.beta1, t)) / ((v / (1.0 - std::pow(f.beta2, t))).sqrt() + f.epsilon);
  return {wide(tensors.weights[i]) * (1.0 - f.lr * f.weight_decay) - f.lr * step, m, v};
}

// The error bound for tensors with a single element, which may differ by the full half unit in the
// last place: 2^-8 in bf16.
double BoundOfOne(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 4e-3 : BoundOf(dtype); }

void CheckStep(const AdamWCase& c, const std::vector<int64_t>& counts) {
  SCOPED_TRACE(::testing::Message() << c.weight << " with " << c.state << ", odd " << c.odd);
  const AdamWTensors tensors = RandomStates(c, counts);
  std::vector<Stepped> wanted;
  for (size_t i = 0; i < counts.size(); ++i) wanted.push_back(StepInFp64(tensors, i, kFactors));
  AdamW(tensors, kFactors);
  const double of_step = 2e-9;  // error of a step of 1e-2 in fp32, relative to weights of about 1
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    EXPECT_TRUE(RelativeError(tensors.weights[i], wanted[i].weight,
                              BoundOfOne(c.weight) + (c.state == at::kDouble ? 0.0 : of_step)))
        << i;
    EXPECT_TRUE(RelativeError(tensors.means[i], wanted[i].mean, BoundOfOne(c.state))) << i;
    // For bf16 states, both neighboring values are correct.
    EXPECT_TRUE(RelativeError(tensors.squares[i], wanted[i].square, 2.0 * BoundOfOne(c.state)))
        << i;
  }
}

constexpr AdamWCase kAdamWCases[] = {{at::kFloat, at::kFloat},
                                     {at::kFloat, at::kBFloat16},
                                     {at::kBFloat16, at::kFloat},
                                     {at::kBFloat16, at::kBFloat16},
                                     {at::kDouble, at::kDouble}};

class AdamWTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(29); }
};

TEST_F(AdamWTest, IsFp64s) {
  for (AdamWCase c : kAdamWCases) {
    for (const bool odd : {false, true}) {
      c.odd = odd;
      CheckStep(c, {1, 0, 3, 1024, 40003, 0, 16384, 5});
    }
  }
}

// More tensors than one launch's table can contain. All tensors of the first table are empty.
TEST_F(AdamWTest, ManyTensors) {
  CheckStep(kAdamWCases[0], std::vector<int64_t>(1200, 5));
  std::vector<int64_t> counts(1200, 0);
  counts.back() = 9;
  CheckStep(kAdamWCases[0], counts);
}

// Many steps give the same weights as LibTorch's AdamW.
TEST_F(AdamWTest, IsLibTorchs) {
  const AdamWTensors ours = RandomStates(kAdamWCases[0], {333});
  ours.means[0].zero_(), ours.squares[0].zero_(), ours.steps[0].zero_();
  const at::Tensor weight = ours.weights[0].clone(), mean = ours.means[0].clone(),
                   square = ours.squares[0].clone(), steps = ours.steps[0].clone();
  for (int step = 0; step < 20; ++step) {
    ours.gradients[0].normal_();
    const at::Tensor gradient = ours.gradients[0].clone();
    ours.steps[0].add_(1), steps.add_(1);
    AdamW(ours, kFactors);
    at::_fused_adamw_({weight}, {gradient}, {mean}, {square}, {}, {steps}, kFactors.lr,
                      kFactors.beta1, kFactors.beta2, kFactors.weight_decay, kFactors.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
  // Each value was rounded twenty times.
  EXPECT_TRUE(RelativeError(ours.weights[0], weight, 1e-6));
  EXPECT_TRUE(RelativeError(ours.means[0], mean, 1e-6));
  EXPECT_TRUE(RelativeError(ours.squares[0], square, 1e-6));
}

// Stochastic rounding depends on an element's index in the whole weight, not on where the tensor
// begins. A mean of squares whose change is less than bf16's last place still changes on average.
TEST_F(AdamWTest, SquaresInBf16AreRightOnAverage) {
  constexpr int64_t kCount = 40000, kKey = -5;
  for (const int64_t place : {0, 1, 62, 1027}) {
    AdamWTensors tensors = RandomStates({at::kFloat, at::kBFloat16}, {kCount});
    tensors.squares[0].fill_(0.7), tensors.gradients[0].zero_();
    tensors.keys = {kKey}, tensors.places = {place};
    const double before = tensors.squares[0][0].item<double>(), beta2 = 0.999;
    AdamWFactors factors = kFactors;
    factors.beta2 = beta2;
    AdamW(tensors, factors);
    const auto square = static_cast<float>(static_cast<float>(beta2) * static_cast<float>(before));
    const at::Tensor row = at::arange((place + kCount) / 64 + 1, at::kLong),
                     drawn = kernels::CounterUniform(static_cast<uint64_t>(kKey), row, 64)
                                 .view({-1})
                                 .narrow(0, place, kCount),
                     bits = at::full({1}, square).view(at::kInt) + (drawn * 65536).to(at::kInt),
                     wanted = bits.bitwise_and(-65536).view(at::kFloat).to(at::kBFloat16);
    EXPECT_TRUE(BitEqual(tensors.squares[0], wanted)) << place;
    // Five standard deviations of the mean of values that are rounded to one of two numbers, 2^-8
    // apart.
    const double mean = tensors.squares[0].to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(mean, square, 5.0 * 0x1p-9 / std::sqrt(kCount)) << place;
  }
}

TEST_F(AdamWTest, OneOrderOfThreadsIsAsGoodAsAnother) {
  const AdamWTensors start = RandomStates(kAdamWCases[0], {2000, 7});
  at::Tensor first;
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    AdamWTensors tensors = start;
    for (auto* list : {&tensors.weights, &tensors.means, &tensors.squares})
      for (at::Tensor& tensor : *list) tensor = tensor.clone();
    AdamW(tensors, kFactors);
    const at::Tensor made = at::cat(tensors.weights);
    if (!first.defined()) first = made;
    EXPECT_TRUE(BitEqual(made, first));
  }
}

TEST_F(AdamWTest, NoTensors) { AdamW({}, kFactors); }

TEST_F(AdamWTest, RefusesShapesAndDtypes) {
  const auto refuses = [](auto change) {
    AdamWTensors tensors = RandomStates(kAdamWCases[0], {8, 8});
    change(tensors);
    EXPECT_THROW(AdamW(tensors, kFactors), c10::Error);
  };
  refuses([](AdamWTensors& t) { t.means.pop_back(); });
  refuses([](AdamWTensors& t) { t.gradients[1] = at::zeros({7}); });
  refuses([](AdamWTensors& t) { t.gradients[1] = at::zeros({16}).slice(0, 0, 16, 2); });
  refuses([](AdamWTensors& t) { t.squares[1] = at::zeros({8}, at::kBFloat16); });
  refuses([](AdamWTensors& t) { t.keys = {1, 2}; });
  refuses([](AdamWTensors& t) { t.steps[0] = at::ones({}, at::kLong); });
  refuses([](AdamWTensors& t) { t.weights[0] = t.weights[1] = at::zeros({8}, at::kDouble); });
}

}  // namespace
}  // namespace moonring::kernels
