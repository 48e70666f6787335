// On the pretend device (a simulated GPU), the kernels and LibTorch's operators in their place give
// results that are bit-identical to the CPU's.

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "gtest/gtest.h"
#include "kernels/packed/eight_bit.h"
#include "kernels/packed/four_bit.h"
#include "tests/testing/all_close.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;

void Expect(const WeightCode& code, const std::vector<int64_t>& shape) {
  const at::Tensor weight = at::randn(shape) * 0.1;
  const PackedWeight packed = code.Pack(weight).value(),
                     there = code.Pack(weight.to(at::kCUDA)).value();
  for (size_t i = 0; i < packed.parts.size(); ++i)
    EXPECT_TRUE(BitEqual(there.parts[i].to(at::kCPU), packed.parts[i]));
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    at::Tensor wanted = at::empty(shape, dtype);
    code.Unpack(packed, wanted);
    for (const char* choice : {"fused", "composed"}) {
      SCOPED_TRACE(::testing::Message() << code.name() << " " << dtype << " " << choice);
      const testing::KernelChoice kernels(choice);
      at::Tensor out = at::empty(shape, wanted.options().device(at::kCUDA));
      pretend::ResetCounts();
      code.Unpack(there, out);
      auto counted = pretend::CountsNow().kernels;
      EXPECT_EQ(counted["unpack_four_bits_"] + counted["unpack_eight_bits_"],
                choice == std::string("fused") && out.numel() > 0 ? 1 : 0);
      EXPECT_TRUE(BitEqual(out.to(at::kCPU), wanted));
    }
  }
}

TEST(PackedDeviceTest, IsTheCpus) {
  at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(3);
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 50}, {5, 7}, {300, 64}, {2, 3, 40}, {1, 1}, {0, 4}}) {
    Expect(EightBitCode(), shape);
    for (const FourBits bits : {FourBits::kNf4, FourBits::kFp4}) {
      Expect(FourBitCode(bits, false), shape);
      Expect(FourBitCode(bits, true), shape);
    }
  }
}

TEST(PackedDeviceTest, RefusesAnotherDevice) {
  const FourBitCode code(FourBits::kNf4, false);
  const PackedWeight packed = code.Pack(at::ones({2, 64})).value();
  at::Tensor out = at::empty({2, 64}, at::TensorOptions(at::kCUDA));
  EXPECT_THROW(code.Unpack(packed, out), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
