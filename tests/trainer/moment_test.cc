// Optimizer moments in bf16 and 8 bits: codes, blocks and a run of AdamW equal bitsandbytes and
// fp64 (golden/moments.json, by make_moments.py); rounding is unbiased, and does not depend on how
// a tensor is split or on a restart; and a model learns as well as with fp32 states.

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "trainer/optimizer/adamw.h"
#include "trainer/optimizer/moment.h"

namespace moonring::trainer {
namespace {

constexpr int64_t kCount = 4096 + 300;  // as make_moments.py

const nlohmann::json& GoldenMoments() {
  static const auto* const golden =
      new nlohmann::json(nlohmann::json::parse(std::ifstream("tests/trainer/golden/moments.json")));
  return *golden;
}

at::Tensor Numbers(const char* name, at::ScalarType dtype) {
  return at::tensor(GoldenMoments()[name].get<std::vector<double>>(), at::kDouble).to(dtype);
}

// Returns the numbers of make_moments.py.
at::Tensor MomentValues(uint64_t state) {
  std::vector<float> values;
  for (int64_t i = 0; i < kCount; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values.push_back(static_cast<float>(static_cast<int64_t>((state >> 40) % 4096) - 2048) / 1024);
  }
  return at::tensor(values);
}

Moment NewMoment(MomentDtype dtype, bool is_signed, int64_t numel) {
  const bool codes = dtype == MomentDtype::k8Bit;
  return {.dtype = dtype,
          .is_signed = is_signed,
          .numbers = at::zeros({numel}, StoredDtype(dtype, at::kFloat)),
          .scale = codes ? NewScale(numel, at::kCPU) : at::Tensor(),
          .codes = codes ? DynamicCodes(is_signed) : at::Tensor()};
}

double DistanceOf(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>() /
         b.to(at::kDouble).norm().item<double>();
}

// The codes are fp32 values of the same decimal numbers; bitsandbytes' midpoints are sums of fp32
// boundaries.
TEST(MomentTest, CodesAreBitsandbytes) {
  for (const bool is_signed : {false, true}) {
    const at::Tensor codes = DynamicCodes(is_signed),
                     wanted = Numbers(is_signed ? "signed" : "unsigned", at::kFloat);
    EXPECT_TRUE(at::allclose(codes, wanted, /*rtol=*/1e-6, /*atol=*/0)) << is_signed;
  }
}

// bitsandbytes' CPU code looks up codes in a table, and misses the nearest one, by up to four
// codes, if a number is small compared with its block's largest. Among large numbers it misses 4 of
// 963, by one code. Moonring's code is never further from the number.
TEST(MomentTest, BlocksAreBitsandbytes) {
  const at::Tensor example =
      MomentValues(7) * at::pow(2.0, -at::arange(kCount).remainder(24).to(at::kFloat));
  const Moment moment = NewMoment(MomentDtype::k8Bit, true, kCount);
  WriteMoment(moment, 0, example, 0, 0);
  EXPECT_TRUE(at::equal(moment.scale, Numbers("largest", at::kFloat)));
  const at::Tensor theirs = DecodedMoment(Numbers("codes", at::kByte), moment.scale, true),
                   ours = ReadMoment(moment, 0, kCount);
  EXPECT_TRUE(((ours - example).abs() <= (theirs - example).abs() * (1 + 1e-5)).all().item<bool>());
  const at::Tensor coarse = example.abs() >= example.abs().max() * 0x1p-6;
  EXPECT_GE(coarse.sum().item<int64_t>(), 900);
  EXPECT_LE((coarse & ours.ne(theirs)).sum().item<int64_t>(), 6);
  // In pieces, as an optimizer does it.
  const Moment pieces = NewMoment(MomentDtype::k8Bit, true, kCount);
  for (int64_t begin = 0; begin < kCount; begin += 1024) {
    const int64_t count = std::min<int64_t>(1024, kCount - begin);
    WriteMoment(pieces, begin, example.narrow(0, begin, count), 0, 0);
  }
  EXPECT_TRUE(at::equal(pieces.numbers, moment.numbers));
  EXPECT_TRUE(
      at::equal(ReadMoment(pieces, 1024, kCount - 1024),
                DecodedMoment(moment.numbers, moment.scale, true).narrow(0, 1024, kCount - 1024)));
}

std::shared_ptr<base::Parameter> Weight(const at::Tensor& values) {
  return std::make_shared<base::Parameter>("model.layers.0.mlp.up_proj.weight", values.clone());
}

void Step(AdamW& adamw, base::Parameter& weight, int step, double lr = 1e-2) {
  weight.ClearGradient();
  weight.AddGradient(MomentValues(100 + step));
  adamw.Step(lr);
}

std::unique_ptr<AdamW> MakeAdamW(MomentDtype moments,
                                 const std::shared_ptr<base::Parameter>& weight) {
  return AdamW::Create({.weight_decay = 0.1, .moments = moments}, {weight}).value();
}

// The reference is fp64 AdamW with the same quantizer: fp32 rounding moves some numbers to the next
// code, which gives a distance of 7e-5. Without quantization the weights would differ by 5e-4,
// which the test would notice.
TEST(MomentTest, AdamWIn8Bit) {
  const auto weight = Weight(MomentValues(1));
  const auto adamw = MakeAdamW(MomentDtype::k8Bit, weight);
  const auto full = Weight(MomentValues(1));
  const auto plain = MakeAdamW(MomentDtype::kFull, full);
  for (int step = 1; step <= GoldenMoments()["steps"].get<int>(); ++step) {
    Step(*adamw, *weight, step);
    Step(*plain, *full, step);
  }
  const at::Tensor wanted = Numbers("weight", at::kDouble);
  std::printf("8bit to the peer %.3g, fp32 states to it %.3g\n",
              DistanceOf(weight->weight(), wanted), DistanceOf(full->weight(), wanted));
  EXPECT_LE(DistanceOf(weight->weight(), wanted), 1e-4);
  EXPECT_GE(DistanceOf(full->weight(), wanted), 3e-4);
  EXPECT_EQ(adamw->state_bytes(), 2 * kCount + 2 * 4 * ((kCount + 255) / 256) + 4);
}

// Averages over many rounding keys: the standard error is at most 2^-9 of the number / sqrt(4000).
TEST(MomentTest, RoundsOnAverage) {
  const at::Tensor values = at::tensor({1.001f, 1.0f, 3.3e-9f, 123.4f, -2.71f});
  at::Tensor sum = at::zeros({5}, at::kDouble);
  constexpr int kKeys = 4000;
  for (int key = 0; key < kKeys; ++key) {
    const at::Tensor rounded = internal::RoundedOnAverage(values, key, 0).to(at::kDouble);
    EXPECT_LE(((rounded - values) / values).abs().max().item<double>(), 0x1p-7);
    sum += rounded;
  }
  EXPECT_LE(((sum / kKeys - values) / values).abs().max().item<double>(), 5 * 0x1p-8 / 63);
}

TEST(MomentTest, RoundsByPlace) {
  const at::Tensor values = MomentValues(3).abs();
  const at::Tensor whole = internal::RoundedOnAverage(values, 5, 0);
  for (const int64_t begin : {1, 63, 64, 1000}) {
    EXPECT_TRUE(
        at::equal(internal::RoundedOnAverage(values.narrow(0, begin, kCount - begin), 5, begin),
                  whole.narrow(0, begin, kCount - begin)));
  }
  EXPECT_FALSE(at::equal(internal::RoundedOnAverage(values, 6, 0), whole));
}

// With rounding to nearest, the second moment would never fall: 0.999 of a bf16 number rounds back
// to it.
TEST(MomentTest, SquaresFallInBf16) {
  const auto weight = Weight(at::zeros({kCount}));
  const auto adamw = MakeAdamW(MomentDtype::kBf16, weight);
  Step(*adamw, *weight, 1);
  const auto squares = [&] {
    return adamw->SaveState()
        .at("exp_avg_sq/" + weight->name())
        .to(at::kDouble)
        .sum()
        .item<double>();
  };
  const double before = squares();
  for (int step = 0; step < 300; ++step) {
    weight->ClearGradient();
    weight->AddGradient(at::zeros({kCount}));
    adamw->Step(0);
  }
  EXPECT_NEAR(squares() / before, std::pow(0.999, 300), 0.01);
}

class HeldTest : public ::testing::TestWithParam<MomentDtype> {};

TEST_P(HeldTest, ResumesBitForBit) {
  const auto weight = Weight(MomentValues(1)), other = Weight(MomentValues(2));
  const auto adamw = MakeAdamW(GetParam(), weight), resumed = MakeAdamW(GetParam(), other);
  for (int step = 1; step <= 4; ++step) Step(*adamw, *weight, step);
  other->weight().copy_(weight->weight());
  std::map<std::string, at::Tensor> saved;
  for (const auto& [name, tensor] : adamw->SaveState()) saved[name] = tensor.clone();
  ASSERT_TRUE(resumed->LoadState(saved).ok());
  for (int step = 5; step <= 8; ++step) {
    Step(*adamw, *weight, step);
    Step(*resumed, *other, step);
    EXPECT_TRUE(at::equal(weight->weight(), other->weight())) << step;
  }
}

// States in another format are converted with one rounding.
TEST_P(HeldTest, TakesFullStates) {
  const auto weight = Weight(MomentValues(1));
  const auto full = MakeAdamW(MomentDtype::kFull, weight), held = MakeAdamW(GetParam(), weight);
  for (int step = 1; step <= 4; ++step) Step(*full, *weight, step);
  ASSERT_TRUE(held->LoadState(full->SaveState()).ok());
  const auto back = MakeAdamW(MomentDtype::kFull, weight);
  ASSERT_TRUE(back->LoadState(held->SaveState()).ok());
  for (const auto& [name, tensor] : full->SaveState())
    EXPECT_LE(DistanceOf(back->SaveState().at(name), tensor), 0.05) << name;
}

// Least squares with 64 x 80 numbers, 300 steps at a falling rate: with fp32 states the loss falls
// to 1e-3 of its initial value, and with these states to at most twice that.
TEST_P(HeldTest, TrainsAsWell) {
  const at::Tensor x = MomentValues(11).narrow(0, 0, 4096).view({64, 64}),
                   goal = MomentValues(12).narrow(0, 0, 4096).view({64, 64});
  const auto loss = [&](MomentDtype moments) {
    const auto weight = std::make_shared<base::Parameter>("up_proj.weight", at::zeros({64, 64}));
    const auto adamw = AdamW::Create({.moments = moments}, {weight}).value();
    double last = 0;
    for (int step = 0; step < 300; ++step) {
      const at::Tensor apart = at::mm(x, weight->weight()) - at::mm(x, goal);
      last = apart.square().mean().item<double>();
      weight->ClearGradient();
      weight->AddGradient(at::mm(x.t(), apart) / 64);
      adamw->Step(0.05 * (1 - step / 300.0));
    }
    return last;
  };
  const double full = loss(MomentDtype::kFull), held = loss(GetParam());
  std::printf("last loss: fp32 states %.4g, these %.4g\n", full, held);
  EXPECT_LE(held, 2 * full);
}

INSTANTIATE_TEST_SUITE_P(All, HeldTest, ::testing::Values(MomentDtype::kBf16, MomentDtype::k8Bit),
                         [](const auto& info) {
                           return info.param == MomentDtype::kBf16 ? "Bf16" : "In8Bit";
                         });

// States of small weights are stored in fp32.
TEST(MomentTest, SmallWeightsIn8Bit) {
  const auto weight = Weight(MomentValues(1).narrow(0, 0, 4095)), full = Weight(weight->weight());
  const auto adamw = MakeAdamW(MomentDtype::k8Bit, weight),
             plain = MakeAdamW(MomentDtype::kFull, full);
  for (const auto& [each, of] : {std::pair{adamw.get(), weight.get()}, {plain.get(), full.get()}}) {
    of->AddGradient(MomentValues(2).narrow(0, 0, 4095));
    each->Step(1e-2);
  }
  EXPECT_TRUE(at::equal(weight->weight(), full->weight()));
  EXPECT_EQ(adamw->state_bytes(), plain->state_bytes());
}

}  // namespace
}  // namespace moonring::trainer
