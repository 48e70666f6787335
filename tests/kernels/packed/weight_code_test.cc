// Requirements for every quantization code: closed form in fp64, bytes, dtypes, and errors.

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/packed/eight_bit.h"
#include "kernels/packed/four_bit.h"
#include "kernels/packed/steps.h"
#include "tests/testing/all_close.h"
#include "tests/testing/status_matchers.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;
using ::moonring::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::shared_ptr<const WeightCode>> Codes() {
  std::vector<std::shared_ptr<const WeightCode>> codes = {std::make_shared<EightBitCode>()};
  for (const FourBits bits : {FourBits::kNf4, FourBits::kFp4}) {
    for (const bool twice : {false, true})
      codes.push_back(std::make_shared<FourBitCode>(bits, twice));
  }
  return codes;
}

const std::vector<std::vector<int64_t>> kShapes = {{3, 50},   {64},   {1},    {5, 7},    {2, 3, 40},
                                                   {130, 64}, {0, 8}, {3, 0}, {257, 129}};

at::Tensor Numbers(const std::vector<int64_t>& shape, at::ScalarType dtype) {
  at::manual_seed(7);
  return (at::randn(shape, at::kDouble) * 0.05).to(dtype);
}

at::Tensor Unpacked(const WeightCode& code, const PackedWeight& packed, at::ScalarType dtype) {
  at::Tensor out = at::full(packed.shape, 7, dtype);
  code.Unpack(packed, out);
  return out;
}

TEST(WeightCodeTest, Names) {
  std::vector<std::string> names;
  for (const auto& code : Codes()) names.push_back(code->name());
  EXPECT_THAT(names, ::testing::ElementsAre("int8", "nf4", "nf4 double", "fp4", "fp4 double"));
}

TEST(WeightCodeTest, BytesInClosedForm) {
  for (const auto& code : Codes()) {
    for (const auto& shape : kShapes) {
      for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
        ASSERT_OK_AND_ASSIGN(const PackedWeight packed, code->Pack(Numbers(shape, dtype)));
        EXPECT_EQ(packed.shape, shape);
        size_t bytes = 0;
        for (const at::Tensor& part : packed.parts) {
          EXPECT_EQ(part.dim(), 1);
          EXPECT_TRUE(part.is_contiguous());
          bytes += part.nbytes();
        }
        EXPECT_EQ(code->PackedBytes(shape), bytes) << code->name() << " " << shape;
      }
    }
  }
  EXPECT_EQ(FourBitCode(FourBits::kNf4, false).PackedBytes({128, 128}), 8192 + 4 * 256);
  EXPECT_EQ(FourBitCode(FourBits::kNf4, true).PackedBytes({128, 128}), 8192 + 256 + 4 + 4);
  EXPECT_EQ(EightBitCode().PackedBytes({10, 3}), 30 + 40);
}

// Unpacked weights equal step[c] a (or q a / 127) in fp64, up to at most 3 roundings in fp32.
TEST(WeightCodeTest, ClosedFormInFp64) {
  for (const auto& shape : kShapes) {
    const at::Tensor weight = Numbers(shape, at::kFloat);
    const int64_t n = weight.numel();
    ASSERT_OK_AND_ASSIGN(const PackedWeight eight, EightBitCode().Pack(weight));
    const at::Tensor
        q = eight.parts[0].to(at::kDouble).view(shape),
        a = eight.parts[1].to(at::kDouble).view(weight.sizes().slice(0, weight.dim() - 1));
    EXPECT_TRUE(RelativeError(Unpacked(EightBitCode(), eight, at::kDouble),
                              q * a.unsqueeze(-1) / 127, 2e-7));
    for (const FourBits bits : {FourBits::kNf4, FourBits::kFp4}) {
      const auto& steps = (bits == FourBits::kNf4 ? Nf4Steps() : Fp4Steps()).steps;
      const at::Tensor step = at::tensor(at::ArrayRef<float>(steps.data(), 16)).to(at::kDouble),
                       dynamic = at::tensor(at::ArrayRef<float>(DynamicSteps().data(), 256));
      for (const bool twice : {false, true}) {
        const FourBitCode code(bits, twice);
        ASSERT_OK_AND_ASSIGN(const PackedWeight packed, code.Pack(weight));
        const at::Tensor codes = packed.parts[0].to(at::kLong);
        const at::Tensor fractions =
            step.index({at::stack({codes.floor_divide(16), codes.remainder(16)}, 1).view({-1})});
        at::Tensor scales = packed.parts[1].to(at::kDouble);
        if (twice) {
          const at::Tensor d = dynamic.to(at::kDouble).index({packed.parts[1].to(at::kLong)});
          scales =
              d * packed.parts[2].to(at::kDouble).repeat_interleave(256).narrow(0, 0, d.numel()) +
              packed.parts[3].to(at::kDouble);
        }
        const at::Tensor wanted =
            (fractions.narrow(0, 0, n) * scales.repeat_interleave(64).narrow(0, 0, n)).view(shape);
        EXPECT_TRUE(RelativeError(Unpacked(code, packed, at::kDouble), wanted, 3e-7))
            << code.name();
      }
    }
  }
}

// The unpacked weight differs from the original by at most half of the code's widest step, relative
// to the largest number of the block.
TEST(WeightCodeTest, StaysNearTheWeight) {
  const at::Tensor weight = Numbers({257, 128}, at::kFloat);
  const at::Tensor largest_of_block =
      weight.view({-1, 64}).abs().amax(1, true).expand({-1, 64}).reshape({257, 128});
  for (const auto& code : Codes()) {
    ASSERT_OK_AND_ASSIGN(const PackedWeight packed, code->Pack(weight));
    const at::Tensor off = (Unpacked(*code, packed, at::kFloat) - weight).abs();
    const double widest = code->name() == "int8" ? 0.0 : code->name()[0] == 'n' ? 0.152 : 0.167;
    const at::Tensor most = code->name() == "int8"
                                ? weight.abs().amax(1, true) * 0.0045
                                : largest_of_block * (widest + 0.08 * (packed.parts.size() == 4));
    EXPECT_TRUE((off <= most).all().item<bool>()) << code->name();
    EXPECT_GT(off.max().item<float>(), 0);
  }
}

// A result in another dtype is the fp32 result, rounded once to nearest (ties to even), as LibTorch
// rounds.
TEST(WeightCodeTest, EveryDtypeIsFp32Rounded) {
  for (const auto& code : Codes()) {
    for (const auto& shape : kShapes) {
      ASSERT_OK_AND_ASSIGN(PackedWeight packed, code->Pack(Numbers(shape, at::kFloat)));
      const at::Tensor wanted = Unpacked(*code, packed, at::kFloat);
      for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf})
        EXPECT_TRUE(BitEqual(Unpacked(*code, packed, dtype), wanted.to(dtype))) << code->name();
    }
  }
}

// Scales outside the range of fp16 and bf16, and a scale of zero.
TEST(WeightCodeTest, RoundsOddScales) {
  const at::Tensor scales =
      at::tensor({1e-41, 1e-38, 3e-8, 65519.9, 65520.0, 3.39e38, 0.0, NAN, INFINITY})
          .to(at::kFloat);
  const FourBitCode code(FourBits::kNf4, false);
  const int64_t blocks = scales.numel();
  PackedWeight packed{{at::arange(blocks * 32).to(at::kByte), scales}, {blocks, 64}};
  const at::Tensor wanted = Unpacked(code, packed, at::kFloat);
  const at::Tensor numbers = wanted.masked_select(wanted.isfinite());
  EXPECT_GT(numbers.numel(), 6 * 64);
  for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf}) {
    const at::Tensor made = Unpacked(code, packed, dtype);
    EXPECT_TRUE(at::equal(made.isnan(), wanted.isnan()));
    EXPECT_TRUE(BitEqual(made.masked_select(wanted.isfinite()), numbers.to(dtype))) << dtype;
  }
}

// The implementations for different kinds of CPU give the same bits.
TEST(WeightCodeTest, AnyKindOfCpu) {
  for (const auto& code : Codes()) {
    ASSERT_OK_AND_ASSIGN(const PackedWeight packed, code->Pack(Numbers({257, 129}, at::kFloat)));
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      const at::Tensor wanted = Unpacked(*code, packed, dtype);
      for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(target);
        EXPECT_TRUE(BitEqual(Unpacked(*code, packed, dtype), wanted))
            << code->name() << " " << hwy::TargetName(target);
      }
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().DeInit();
    }
  }
}

TEST(WeightCodeTest, AnyPlaceAndThreads) {
  const FourBitCode code(FourBits::kNf4, true);
  const at::Tensor weight = Numbers({300, 513}, at::kBFloat16);
  at::set_num_threads(1);
  ASSERT_OK_AND_ASSIGN(const PackedWeight packed, code.Pack(weight));
  const at::Tensor wanted = Unpacked(code, packed, at::kBFloat16);
  at::set_num_threads(2);
  ASSERT_OK_AND_ASSIGN(const PackedWeight again, code.Pack(weight.t().contiguous().t()));
  for (size_t i = 0; i < packed.parts.size(); ++i)
    EXPECT_TRUE(BitEqual(again.parts[i], packed.parts[i]));
  for (const int64_t begin : {0, 1, 3}) {
    at::Tensor slab = at::zeros({weight.numel() + 4}, at::kBFloat16);
    at::Tensor out = slab.narrow(0, begin, weight.numel()).view(weight.sizes());
    code.Unpack(packed, out);
    EXPECT_TRUE(BitEqual(out, wanted));
    EXPECT_EQ(slab.narrow(0, weight.numel() + begin, 4 - begin).abs().sum().item<float>(), 0);
  }
}

TEST(WeightCodeTest, RefusesWhatItCannotPack) {
  for (const auto& code : Codes()) {
    for (const double wrong : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
      at::Tensor weight = at::ones({2, 70});
      weight[1][69] = wrong;
      EXPECT_THAT(
          code->Pack(weight),
          StatusIs(absl::StatusCode::kInvalidArgument,
                   AllOf(HasSubstr(code->name() + ": a weight of shape [2, 70] in Float"),
                         HasSubstr(code->name() == "int8" ? "fp16 does not hold" : "not finite"))));
    }
    EXPECT_THAT(
        code->Pack(at::ones({2, 3}, at::kDouble)),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(code->name() + ": a weight in Double, expected fp32, bf16 or fp16")));
  }
  EXPECT_THAT(EightBitCode().Pack(at::full({1, 4}, 7e4)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fp16 does not hold")));
}

TEST(WeightCodeTest, RefusesOtherParts) {
  const auto throws = [](const WeightCode& code, const PackedWeight& packed, at::Tensor out,
                         const std::string& text) {
    try {
      code.Unpack(packed, out);
      ADD_FAILURE() << "no error, expected " << text;
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  for (const auto& code : Codes()) {
    ASSERT_OK_AND_ASSIGN(const PackedWeight packed, code->Pack(at::ones({6, 70})));
    throws(*code, packed, at::empty({70, 6}), "expected shape [6, 70] without gaps");
    throws(*code, packed, at::empty({70, 6}).t(), "without gaps");
    throws(*code, packed, at::empty({6, 70}, at::kInt), "in fp32, fp64, bf16 or fp16");
    PackedWeight few = packed, shorter = packed, other = packed;
    few.parts.pop_back();
    throws(*code, few, at::empty({6, 70}), "parts of a packed weight, expected ");
    shorter.parts[1] = shorter.parts[1].narrow(0, 0, 3);
    throws(*code, shorter, at::empty({6, 70}), "of shape [3]");
    other.parts[0] = other.parts[0].to(at::kInt);
    throws(*code, other, at::empty({6, 70}), "codes of shape");
  }
}

}  // namespace
}  // namespace moonring::kernels
