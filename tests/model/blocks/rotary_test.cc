#include "model/blocks/rotary.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/strings/str_cat.h"
#include "tests/testing/all_close.h"
#include "tests/testing/finite_differences.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::FiniteDifferences;
using ::moonring::testing::kDifferenceBound;
using ::moonring::testing::RelativeError;
using ::testing::HasSubstr;

// Bound for powers and logarithms of two libraries, with a few roundings each.
constexpr double kSameAngles = 1e-13;

at::Tensor RandomHeads(at::IntArrayRef sizes, at::ScalarType dtype = at::kDouble) {
  return at::randn(sizes, at::kDouble).to(dtype);
}

// Computes a frequency as Transformers' modeling_rope_utils does, for one pair, in plain doubles.
double FrequencyByItsFormula(const RotaryRule& rule, int64_t f, int64_t length) {
  const double dim = static_cast<double>(rule.dim), exponent = 2.0 * static_cast<double>(f) / dim,
               plain = std::pow(rule.theta, -exponent);
  const double context = rule.original_length;
  switch (rule.kind) {
    case RopeKind::kDefault:
      return plain;
    case RopeKind::kLinear:
      return plain / rule.factor;
    case RopeKind::kDynamic: {
      const double n = std::max<double>(static_cast<double>(length), context);
      return std::pow(
          rule.theta * std::pow(rule.factor * n / context - (rule.factor - 1), dim / (dim - 2)),
          -exponent);
    }
    case RopeKind::kYarn: {
      const auto correction = [&](double rotations) {
        return dim * std::log(context / (rotations * 2 * M_PI)) / (2 * std::log(rule.theta));
      };
      double low = correction(rule.beta_fast), high = correction(rule.beta_slow);
      if (rule.truncate) low = std::floor(low), high = std::ceil(high);
      low = std::max(low, 0.0), high = std::min(high, dim - 1);
      if (low == high) high += 0.001;
      const double stretched = std::clamp((static_cast<double>(f) - low) / (high - low), 0.0, 1.0);
      return plain / rule.factor * stretched + plain * (1 - stretched);
    }
    case RopeKind::kLlama3: {
      const double wave = 2 * M_PI / plain;
      if (wave < context / rule.high_freq_factor) return plain;
      if (wave > context / rule.low_freq_factor) return plain / rule.factor;
      const double smooth =
          (context / wave - rule.low_freq_factor) / (rule.high_freq_factor - rule.low_freq_factor);
      return (1 - smooth) * plain / rule.factor + smooth * plain;
    }
    case RopeKind::kLongRope:
      return plain /
             (static_cast<double>(length) > context ? rule.long_factor : rule.short_factor)[f];
    case RopeKind::kProportional:
      return f < rule.turning_pairs ? plain / rule.factor : 0.0;
  }
  return 0.0;
}

std::vector<double> Factors(int64_t pairs, double first, double step) {
  std::vector<double> factors;
  for (int64_t f = 0; f < pairs; ++f) factors.push_back(first + step * static_cast<double>(f));
  return factors;
}

std::vector<RotaryRule> RotaryRules() {
  return {
      {.theta = 500.0, .dim = 8},
      {.kind = RopeKind::kLinear, .theta = 1e4, .dim = 16, .factor = 2.5},
      {.kind = RopeKind::kDynamic, .theta = 1e4, .dim = 16, .factor = 4.0, .original_length = 32},
      {.kind = RopeKind::kDynamic, .theta = 1e4, .dim = 4, .factor = 1.0, .original_length = 32},
      {.kind = RopeKind::kYarn, .theta = 1e4, .dim = 64, .factor = 4.0, .original_length = 4096},
      {.kind = RopeKind::kYarn,
       .theta = 1e6,
       .dim = 128,
       .factor = 40.0,
       .original_length = 32768,
       .truncate = false},
      {.kind = RopeKind::kYarn,
       .theta = 1e4,
       .dim = 32,
       .factor = 8.0,
       .original_length = 2048,
       .beta_fast = 20.0,
       .beta_slow = 2.0},
      {.kind = RopeKind::kYarn,
       .theta = 1e4,
       .dim = 8,
       .factor = 8.0,
       .original_length = 4},  // both bounds are at pair 0
      {.kind = RopeKind::kLlama3, .theta = 5e5, .dim = 128, .factor = 8.0, .original_length = 8192},
      {.kind = RopeKind::kLlama3,
       .theta = 5e5,
       .dim = 64,
       .factor = 32.0,
       .original_length = 8192,
       .low_freq_factor = 1.5,
       .high_freq_factor = 6.0},
      {.kind = RopeKind::kProportional, .theta = 1e6, .dim = 16, .turning_pairs = 3, .factor = 2.0},
      {.kind = RopeKind::kLongRope,
       .theta = 1e4,
       .dim = 12,
       .original_length = 32,
       .short_factor = Factors(6, 1.0, 0.013),
       .long_factor = Factors(6, 1.1, 4.7)}};
}

class RotaryTest : public ::testing::Test {
 protected:
  RotaryTest() { at::manual_seed(7); }
};

TEST_F(RotaryTest, EachScalingIsItsFormula) {
  for (const RotaryRule& rule : RotaryRules()) {
    for (const int64_t length : {1, 31, 32, 33, 200}) {
      SCOPED_TRACE(absl::StrCat(DescribeRope(rule), ", a text of ", length));
      at::Tensor wanted = at::empty({rule.dim / 2}, at::kDouble);
      for (int64_t f = 0; f < rule.dim / 2; ++f) wanted[f] = FrequencyByItsFormula(rule, f, length);
      EXPECT_TRUE(
          RelativeError(InverseFrequencies(rule, length, at::kDouble), wanted, kSameAngles));
      for (int64_t f = 0; f < rule.dim / 2; ++f) {  // each separately: norms would hide small ones
        EXPECT_NEAR(InverseFrequencies(rule, length, at::kDouble)[f].item<double>(),
                    wanted[f].item<double>(), kSameAngles * wanted[f].item<double>())
            << f;
      }
      EXPECT_TRUE(RelativeError(InverseFrequencies(rule, length, at::kFloat), wanted, 1e-6));
    }
  }
}

// The scalings of the test above use every branch: checks values on both sides of each bound.
TEST_F(RotaryTest, ScalingsTakeEveryBranch) {
  const RotaryRule llama3{
      .kind = RopeKind::kLlama3, .theta = 5e5, .dim = 128, .factor = 8.0, .original_length = 8192};
  const at::Tensor plain = InverseFrequencies({.theta = 5e5, .dim = 128}, 0, at::kDouble),
                   ratio = plain / InverseFrequencies(llama3, 0, at::kDouble);
  EXPECT_EQ(ratio[0].item<double>(), 1.0);
  EXPECT_NEAR(ratio[63].item<double>(), 8.0, kSameAngles);
  EXPECT_GT(ratio.gt(1.01).logical_and(ratio.lt(7.99)).sum().item<int64_t>(), 2);
  const RotaryRule yarn{
      .kind = RopeKind::kYarn, .theta = 1e4, .dim = 64, .factor = 4.0, .original_length = 4096};
  const at::Tensor slowed = InverseFrequencies({.theta = 1e4, .dim = 64}, 0, at::kDouble) /
                            InverseFrequencies(yarn, 0, at::kDouble);
  EXPECT_NEAR(slowed[0].item<double>(), 1.0, kSameAngles);
  EXPECT_NEAR(slowed[31].item<double>(), 4.0, kSameAngles);
  EXPECT_GT(slowed.gt(1.01).logical_and(slowed.lt(3.99)).sum().item<int64_t>(), 2);
}

// Rotates the first `dim` features, as complex numbers, by position * w_f, and scales them; the
// other features are unchanged.
at::Tensor Turned(const at::Tensor& x, const RotaryRule& rule, const at::Tensor& positions,
                  const std::vector<int64_t>& lengths) {
  const int64_t pairs = rule.dim / 2;
  at::Tensor result = x.clone();
  for (int64_t t = 0; t < x.size(0); ++t) {
    for (int64_t f = 0; f < pairs; ++f) {
      const double angle = static_cast<double>(positions[t].item<int64_t>()) *
                           FrequencyByItsFormula(rule, f, lengths[t]);
      const int64_t a = rule.interleaved ? 2 * f : f, b = rule.interleaved ? 2 * f + 1 : f + pairs;
      const at::Tensor real = x[t].select(1, a), imaginary = x[t].select(1, b);
      result[t].select(1, a).copy_((real * std::cos(angle) - imaginary * std::sin(angle)) *
                                   rule.attention_factor);
      result[t].select(1, b).copy_((imaginary * std::cos(angle) + real * std::sin(angle)) *
                                   rule.attention_factor);
    }
  }
  return result;
}

TEST_F(RotaryTest, IsAComplexRotation) {
  const at::Tensor positions = at::tensor({0, 5, 2, 2, 1000}, at::kLong),
                   x = RandomHeads({5, 3, 8});
  for (const int64_t dim : {8, 6, 2}) {
    for (const bool interleaved : {false, true}) {
      for (const double attention_factor : {1.0, 1.3}) {
        SCOPED_TRACE(absl::StrCat(dim, " of 8 features, interleaved ", interleaved, ", factor ",
                                  attention_factor));
        const RotaryRule rule{.theta = 500.0,
                              .dim = dim,
                              .interleaved = interleaved,
                              .attention_factor = attention_factor};
        const at::Tensor wanted = Turned(x, rule, positions, {0, 0, 0, 0, 0});
        // Angles of about 1000 have an error of 1e-13, which also appears in the result.
        const at::Tensor turned =
            ApplyRotary(x, MakeRotary(rule, positions, at::Tensor(), at::kDouble));
        EXPECT_TRUE(RelativeError(turned, wanted, 1e-12));
        // fp32 angles of about 1000, on a fifth of the rows, have an error of 1000 * 2^-24.
        EXPECT_TRUE(RelativeError(
            ApplyRotary(x.to(at::kFloat), MakeRotary(rule, positions, at::Tensor(), at::kFloat)),
            wanted, 1e-4));
        EXPECT_TRUE(BitEqual(turned.narrow(2, dim, 8 - dim), x.narrow(2, dim, 8 - dim)));
        if (attention_factor == 1.0) {
          EXPECT_TRUE(BitEqual(turned[0], x[0]));
        }
      }
    }
  }
}

// Adjacent pairs differ from pairs of halves only by the order of the features.
TEST_F(RotaryTest, InterleavedPairsAreHalvesInAnotherOrder) {
  const at::Tensor positions = at::arange(7, at::kLong), x = RandomHeads({7, 2, 8}),
                   order = at::tensor({0, 2, 4, 6, 1, 3, 5, 7}, at::kLong);
  const Rotary halves = MakeRotary({.theta = 50.0, .dim = 8}, positions, at::Tensor(), at::kDouble);
  const Rotary neighbours = MakeRotary({.theta = 50.0, .dim = 8, .interleaved = true}, positions,
                                       at::Tensor(), at::kDouble);
  EXPECT_TRUE(BitEqual(ApplyRotary(x, neighbours).index_select(2, order),
                       ApplyRotary(x.index_select(2, order), halves)));
}

TEST_F(RotaryTest, Gradients) {
  const at::Tensor positions = at::tensor({3, 0, 17}, at::kLong), weights = RandomHeads({3, 2, 6});
  for (const int64_t dim : {6, 4}) {
    for (const bool interleaved : {false, true}) {
      const Rotary rotary = MakeRotary(
          {.theta = 100.0, .dim = dim, .interleaved = interleaved, .attention_factor = 1.2},
          positions, at::Tensor(), at::kDouble);
      const at::Tensor x = RandomHeads({3, 2, 6}).requires_grad_();
      const at::Tensor gradient =
          torch::autograd::grad({ApplyRotary(x, rotary)}, {x}, {weights})[0];
      const auto value = [&] { return (ApplyRotary(x, rotary) * weights).sum().item<double>(); };
      EXPECT_TRUE(RelativeError(gradient, FiniteDifferences(value, x), kDifferenceBound));
    }
  }
}

// In a packed stream, a document is rotated as if it were alone. Documents of 20 and 32 tokens fit
// into the context of 32; those of 33 and 90 exceed it.
TEST_F(RotaryTest, ADocumentInAPackTurnsAsItWouldAlone) {
  for (const RotaryRule& rule : RotaryRules()) {
    if (!rule.depends_on_length()) continue;
    SCOPED_TRACE(DescribeRope(rule));
    std::vector<at::Tensor> positions, lengths, alone, rows;
    std::vector<int64_t> length_of_row;
    for (const int64_t length : {33, 1, 20, 90, 32, 33}) {
      positions.push_back(at::arange(length, at::kLong));
      lengths.push_back(at::full({length}, length, at::kLong));
      rows.push_back(RandomHeads({length, 2, rule.dim + 2}));
      alone.push_back(ApplyRotary(rows.back(),
                                  MakeRotary(rule, positions.back(), lengths.back(), at::kDouble)));
      length_of_row.insert(length_of_row.end(), length, length);
    }
    const at::Tensor packed = ApplyRotary(
        at::cat(rows), MakeRotary(rule, at::cat(positions), at::cat(lengths), at::kDouble));
    EXPECT_TRUE(BitEqual(packed, at::cat(alone)));
    EXPECT_TRUE(RelativeError(
        packed, Turned(at::cat(rows), rule, at::cat(positions), length_of_row), 1e-12));
    // Any subset of the rows gives the same results, as on one rank of several.
    const at::Tensor some = at::tensor({170, 3, 40, 41, 100}, at::kLong);
    const Rotary of_some = MakeRotary(rule, at::cat(positions).index_select(0, some),
                                      at::cat(lengths).index_select(0, some), at::kDouble);
    EXPECT_TRUE(BitEqual(ApplyRotary(at::cat(rows).index_select(0, some), of_some),
                         packed.index_select(0, some)));
  }
}

TEST_F(RotaryTest, ComputesInItsOwnDtype) {
  for (const bool interleaved : {false, true}) {
    const Rotary rotary = MakeRotary({.theta = 1e4, .dim = 12, .interleaved = interleaved},
                                     at::arange(9, at::kLong), at::Tensor(), at::kFloat);
    const at::Tensor x = RandomHeads({9, 2, 16}, at::kBFloat16);
    EXPECT_TRUE(
        BitEqual(ApplyRotary(x, rotary), ApplyRotary(x.to(at::kFloat), rotary).to(at::kBFloat16)));
  }
}

TEST_F(RotaryTest, NoRows) {
  const at::Tensor none = at::empty({0}, at::kLong);
  for (const RotaryRule& rule : RotaryRules()) {
    const at::Tensor x = RandomHeads({0, 2, rule.dim}).requires_grad_();
    const at::Tensor y = ApplyRotary(x, MakeRotary(rule, none, none, at::kDouble));
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_EQ(torch::autograd::grad({y}, {x}, {y})[0].sizes(), x.sizes());
  }
}

TEST_F(RotaryTest, QueriesGrow) {
  const std::vector<int64_t> positions = {0, 7, 8, 23, 24, 1000};
  const Rotary rotary = MakeRotary({.dim = 8, .query_growth = 0.3, .query_growth_length = 8.0},
                                   at::tensor(positions, at::kLong), at::Tensor(), at::kDouble);
  ASSERT_EQ(rotary.query_scale_T11.sizes(), at::IntArrayRef({6, 1, 1}));
  for (size_t i = 0; i < positions.size(); ++i) {
    const double contexts = static_cast<double>(positions[i] / 8);  // whole contexts
    EXPECT_NEAR(rotary.query_scale_T11[static_cast<int64_t>(i)].item<double>(),
                1 + 0.3 * std::log(1 + contexts), 1e-14);
  }
  EXPECT_FALSE(MakeRotary({.dim = 8}, at::zeros({3}, at::kLong), at::Tensor(), at::kDouble)
                   .query_scale_T11.defined());
}

TEST_F(RotaryTest, ALogLine) {
  EXPECT_EQ(DescribeRope({.dim = 4}), "default");
  EXPECT_EQ(DescribeRope({.kind = RopeKind::kLinear, .dim = 4, .factor = 2.0}), "linear, factor 2");
  EXPECT_EQ(DescribeRope({.kind = RopeKind::kYarn,
                          .dim = 4,
                          .factor = 4.0,
                          .attention_factor = 1.1386,
                          .original_length = 32768}),
            "yarn, factor 4 over 32768 positions, cosines times 1.1386");
  EXPECT_EQ(DescribeRope(
                {.kind = RopeKind::kLongRope, .dim = 4, .factor = 32.0, .original_length = 4096}),
            "longrope over 4096 positions");
}

TEST_F(RotaryTest, RefusesWhatDoesNotFit) {
  const at::Tensor positions = at::zeros({3}, at::kLong);
  EXPECT_THROW(MakeRotary({.dim = 7}, positions, at::Tensor(), at::kFloat), c10::Error);
  EXPECT_THROW(MakeRotary({.dim = 8}, positions.view({1, 3}), at::Tensor(), at::kFloat),
               c10::Error);
  EXPECT_THROW(ApplyRotary(RandomHeads({2, 1, 8}),
                           MakeRotary({.dim = 8}, positions, at::Tensor(), at::kDouble)),
               c10::Error);
  EXPECT_THROW(ApplyRotary(RandomHeads({3, 1, 6}),
                           MakeRotary({.dim = 8}, positions, at::Tensor(), at::kDouble)),
               c10::Error);
  const auto message = [](const auto& body) {
    try {
      body();
    } catch (const c10::Error& error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string("nothing was thrown");
  };
  for (const RotaryRule& rule : RotaryRules()) {
    if (!rule.depends_on_length()) continue;
    const std::string wanted = absl::StrCat(
        RopeName(rule.kind),
        " scaling goes by the length of each token's document: lengths of shape [3] are expected");
    EXPECT_THAT(message([&] { MakeRotary(rule, positions, at::Tensor(), at::kFloat); }),
                HasSubstr(wanted));
    EXPECT_THAT(message([&] { MakeRotary(rule, positions, at::ones({2}, at::kLong), at::kFloat); }),
                HasSubstr(wanted));
  }
  RotaryRule few = RotaryRules().back();
  few.long_factor.pop_back();
  EXPECT_THAT(message([&] { InverseFrequencies(few, 100, at::kDouble); }),
              HasSubstr("longrope: 5 factors for 6 pairs"));
  const at::Tensor x = RandomHeads({3, 1, 8}).requires_grad_();
  const at::Tensor y = ApplyRotary(x, MakeRotary({.dim = 8}, positions, at::Tensor(), at::kDouble));
  EXPECT_THROW(
      torch::autograd::grad({y}, {x}, {at::ones_like(y)}, std::nullopt, /*create_graph=*/true),
      c10::Error);
}

}  // namespace
}  // namespace moonring::model
