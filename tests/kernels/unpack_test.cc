#include "kernels/unpack.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "kernels/packed/eight_bit.h"
#include "kernels/packed/four_bit.h"
#include "kernels/packed/steps.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
const std::vector<std::vector<int64_t>> kShapes = {{3, 50},  {5, 7},     {1, 1},
                                                   {37, 64}, {2, 3, 40}, {300, 129}};

// Returns a tensor of this shape that begins `begin` elements after an alignment boundary. Outputs
// and codes may have such addresses.
at::Tensor Place(const std::vector<int64_t>& shape, at::ScalarType dtype, int64_t begin) {
  const int64_t count = c10::multiply_integers(shape);
  return at::empty({count + begin}, dtype).narrow(0, begin, count).view(shape);
}
at::Tensor Moved(const at::Tensor& part, int64_t begin) {
  at::Tensor moved = Place(part.sizes().vec(), part.scalar_type(), begin);
  return moved.copy_(part);
}

// Unpacked four-bit weights are bit-identical to the CPU's, which equal those of bitsandbytes
// (tests/kernels/packed).
TEST(UnpackTest, FourBitsAreTheCpus) {
  at::manual_seed(11);
  for (const auto& shape : kShapes) {
    for (const auto bits : {kernels::FourBits::kNf4, kernels::FourBits::kFp4}) {
      const auto& steps =
          (bits == kernels::FourBits::kNf4 ? kernels::Nf4Steps() : kernels::Fp4Steps()).steps;
      for (const bool twice : {false, true}) {
        const kernels::FourBitCode code(bits, twice);
        kernels::PackedWeight packed = code.Pack(at::randn(shape) * 0.1).value();
        for (const int64_t begin : {0, 1}) {
          for (at::Tensor& part : packed.parts) part = Moved(part, begin);
          for (const auto dtype : kDtypes) {
            SCOPED_TRACE(::testing::Message() << code.name() << " " << dtype << " " << begin);
            at::Tensor wanted = at::empty(shape, dtype);
            code.Unpack(packed, wanted);
            const Poison poison;
            const at::Tensor out = Place(shape, dtype, begin);
            UnpackFourBits(out, packed.parts, steps, kernels::DynamicSteps());
            EXPECT_TRUE(BitEqual(out, wanted)) << shape;
          }
        }
      }
    }
  }
}

TEST(UnpackTest, EightBitsAreTheCpus) {
  at::manual_seed(12);
  const kernels::EightBitCode code;
  for (const auto& shape : kShapes) {
    kernels::PackedWeight packed = code.Pack(at::randn(shape)).value();
    for (const int64_t begin : {0, 1}) {
      for (at::Tensor& part : packed.parts) part = Moved(part, begin);
      for (const auto dtype : kDtypes) {
        SCOPED_TRACE(::testing::Message() << dtype << " " << begin);
        at::Tensor wanted = at::empty(shape, dtype);
        code.Unpack(packed, wanted);
        const Poison poison;
        const at::Tensor out = Place(shape, dtype, begin);
        UnpackEightBits(out, packed.parts[0], packed.parts[1]);
        EXPECT_TRUE(BitEqual(out, wanted)) << shape;
      }
    }
  }
}

TEST(UnpackTest, AnyOrderOfThreadsAndNothing) {
  const kernels::FourBitCode code(kernels::FourBits::kNf4, true);
  const kernels::PackedWeight packed = code.Pack(at::randn({70, 65})).value();
  at::Tensor wanted = at::empty({70, 65});
  code.Unpack(packed, wanted);
  for (const uint64_t seed : kOrders) {
    const fibers::OrderScope order(seed);
    const at::Tensor out = at::empty({70, 65});
    UnpackFourBits(out, packed.parts, kernels::Nf4Steps().steps, kernels::DynamicSteps());
    EXPECT_TRUE(BitEqual(out, wanted));
  }
  const kernels::PackedWeight none = code.Pack(at::empty({0, 8})).value();
  UnpackFourBits(at::empty({0, 8}), none.parts, kernels::Nf4Steps().steps, kernels::DynamicSteps());
  UnpackEightBits(at::empty({0, 8}), at::empty({0}, at::kChar), at::empty({0}));
  UnpackEightBits(at::empty({3, 0}), at::empty({0}, at::kChar), at::empty({3}));
}

TEST(UnpackTest, RefusesOtherParts) {
  const auto& steps = kernels::Nf4Steps().steps;
  const auto& scale_steps = kernels::DynamicSteps();
  const std::vector<at::Tensor> parts = {at::zeros({64}, at::kByte), at::ones({2})};
  const at::Tensor out = at::empty({2, 64});
  UnpackFourBits(out, parts, steps, scale_steps);
  EXPECT_THROW(UnpackFourBits(at::empty({64, 2}).t(), parts, steps, scale_steps), c10::Error);
  EXPECT_THROW(UnpackFourBits(out.to(at::kInt), parts, steps, scale_steps), c10::Error);
  EXPECT_THROW(UnpackFourBits(out, {parts[0]}, steps, scale_steps), c10::Error);
  EXPECT_THROW(UnpackFourBits(out, {parts[1], parts[0]}, steps, scale_steps), c10::Error);
  EXPECT_THROW(UnpackFourBits(out, {parts[0], at::ones({3})}, steps, scale_steps), c10::Error);
  EXPECT_THROW(UnpackFourBits(out, parts, scale_steps, steps), c10::Error);
  EXPECT_THROW(UnpackEightBits(out, at::zeros({127}, at::kChar), at::ones({2})), c10::Error);
  EXPECT_THROW(UnpackEightBits(out, at::zeros({128}, at::kChar), at::ones({3})), c10::Error);
  EXPECT_THROW(UnpackEightBits(out, at::zeros({128}, at::kByte), at::ones({2})), c10::Error);
}

}  // namespace
}  // namespace moonring::kernels
