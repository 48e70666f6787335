// Packed weights compared with bitsandbytes 0.50.2 on a CPU (tests/golden/packed/make.py): every
// byte of the packed form, and every bit of the unpacked weights.

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/packed/eight_bit.h"
#include "kernels/packed/four_bit.h"
#include "kernels/packed/steps.h"
#include "model/files/safetensors.h"
#include "tests/testing/all_close.h"
#include "tests/testing/status_matchers.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::StatusIs;
using ::testing::HasSubstr;

class BitsandbytesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(file_,
                         model::SafetensorsFile::Open("tests/golden/packed/packed.safetensors"));
  }

  bool Has(const std::string& name) const { return file_->entries().contains(name); }
  at::Tensor Golden(const std::string& name) const { return file_->Read(name).value(); }

  void ExpectUnpacked(const WeightCode& code, const PackedWeight& packed, const std::string& name,
                      at::ScalarType dtype) const {
    if (!Has(name)) return;
    at::Tensor out = at::empty(packed.shape, dtype);
    code.Unpack(packed, out);
    //  0.0: FP4 has a negative zero, and bitsandbytes has no rule which of the two zeros to use.
    EXPECT_TRUE(BitEqual(out + 0.0, Golden(name) + 0.0)) << name;
    unpacked_ += 1;
  }

  void ExpectFourBits(const std::string& name, const at::Tensor& weight) {
    for (const auto& [kind, bits] :
         {std::pair{"nf4", FourBits::kNf4}, std::pair{"fp4", FourBits::kFp4}}) {
      const std::string plain = name + "." + kind, twice = plain + "_double";
      const FourBitCode code(bits, false), double_code(bits, true);
      ASSERT_OK_AND_ASSIGN(const PackedWeight packed, code.Pack(weight));
      EXPECT_TRUE(BitEqual(packed.parts[0], Golden(plain + ".codes"))) << plain;
      EXPECT_TRUE(BitEqual(packed.parts[1], Golden(plain + ".scales"))) << plain;
      ExpectUnpacked(code, packed, plain + ".unpacked", at::kFloat);
      if (!Has(twice + ".mean")) {
        EXPECT_THAT(double_code.Pack(weight),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("the mean of a weight's scales is beyond fp32")));
        continue;
      }
      ASSERT_OK_AND_ASSIGN(const PackedWeight again, double_code.Pack(weight));
      const std::vector<std::string> parts = {plain + ".codes", twice + ".scale_codes",
                                              twice + ".scale_scales", twice + ".mean"};
      for (size_t i = 0; i < parts.size(); ++i)
        EXPECT_TRUE(BitEqual(again.parts[i], Golden(parts[i]))) << parts[i];
      ExpectUnpacked(double_code, again, twice + ".unpacked", at::kFloat);
      ExpectUnpacked(double_code, again, twice + ".unpacked_bf16", at::kBFloat16);
    }
  }

  void ExpectEightBits(const std::string& name, const at::Tensor& weight) {
    const EightBitCode code;
    ASSERT_OK_AND_ASSIGN(const PackedWeight packed, code.Pack(weight));
    EXPECT_TRUE(BitEqual(packed.parts[0], Golden(name + ".int8.codes"))) << name;
    EXPECT_TRUE(BitEqual(packed.parts[1], Golden(name + ".int8.scales"))) << name;
    ExpectUnpacked(code, packed, name + ".int8.unpacked", at::kFloat);
  }

  std::shared_ptr<const model::SafetensorsFile> file_;
  mutable int unpacked_ = 0;
};

TEST_F(BitsandbytesTest, DynamicSteps) {
  const auto& steps = DynamicSteps();
  const at::Tensor ours = at::tensor(at::ArrayRef<float>(steps.data(), steps.size()));
  EXPECT_TRUE(BitEqual(ours, Golden("dynamic")));
}

TEST_F(BitsandbytesTest, PacksAndUnpacks) {
  for (const std::string name :
       {"small_bf16", "small_fp16", "small_odd", "small_fp32", "edge", "ties"}) {
    const at::Tensor weight = Golden(name + ".weight");
    ExpectFourBits(name, weight);
    ExpectEightBits(name, weight);
  }
  ExpectFourBits("huge", Golden("huge.weight"));
  EXPECT_EQ(unpacked_, 7 * 6 + 6);
}

// Every finite bf16 number, in the order of their bits; and those within [-1, 1] in a block that
// contains 1.
TEST_F(BitsandbytesTest, EveryNumberOfBf16) {
  const at::Tensor all = at::arange(65536, at::kInt).to(at::kShort).view(at::kBFloat16),
                   finite = all.masked_select(all.isfinite());
  EXPECT_EQ(finite.numel(), 65536 - 256);
  ExpectFourBits("bf16", finite);
  at::Tensor unit = finite.masked_select(finite.abs() <= 1);
  unit = at::constant_pad_nd(unit, {0, 62 - (unit.numel() - 1) % 63}).view({-1, 63});
  ExpectFourBits("unit", at::cat({unit, at::ones({unit.size(0), 1}, unit.options())}, 1));
}

TEST_F(BitsandbytesTest, ScalesInSeveralBlocks) {
  ExpectFourBits("scales", Golden("scales.weight"));
}

// The mean of 65536 blocks equals LibTorch's on one thread, for any number of threads.
TEST_F(BitsandbytesTest, ManyBlocks) {
  at::Tensor weight = at::zeros({1 << 22}, at::kLong);
  at::manual_seed(1);
  for (int i = 0; i < 4; ++i) weight += at::randint(-(1 << 20), 1 << 20, {1 << 22}, at::kLong);
  weight = weight.to(at::kFloat) * std::ldexp(1.0, -25);
  const auto digest = [](const at::Tensor& part) {
    if (part.scalar_type() != at::kByte) return part;
    const at::Tensor places = (at::arange(part.numel(), at::kLong) * 40503).remainder(65521) + 1;
    return (part.to(at::kLong) * places).sum().view({1});
  };
  const std::vector<std::string> parts = {".codes", ".scale_codes", ".scale_scales", ".mean"};
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const auto& [kind, bits] :
         {std::pair{"nf4", FourBits::kNf4}, std::pair{"fp4", FourBits::kFp4}}) {
      ASSERT_OK_AND_ASSIGN(const PackedWeight packed, FourBitCode(bits, true).Pack(weight));
      for (size_t i = 0; i < parts.size(); ++i) {
        const std::string name = std::string("many.") + kind + "_double" + parts[i];
        EXPECT_TRUE(BitEqual(digest(packed.parts[i]), Golden(name))) << name;
      }
    }
  }
}

}  // namespace
}  // namespace moonring::kernels
