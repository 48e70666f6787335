// A packed (quantized) weight, whole and sharded over several ranks: the weight that is unpacked
// for use is bit-identical to the result of the quantization code, and each rank stores only its
// shard of the bytes.

#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "comm/packed_home.h"
#include "kernels/packed/eight_bit.h"
#include "kernels/packed/four_bit.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::comm {
namespace {

at::Tensor Weight(int64_t rows, int64_t columns) {
  at::manual_seed(3);
  return at::randn({rows, columns}) * 0.1;
}

void LeasesWhatIsUnpacked(const std::shared_ptr<const kernels::WeightCode>& code, int ranks) {
  const at::Tensor weight = Weight(37, 53);  // sizes that no number of ranks divides
  testing::RunRanks(ranks, [&](std::shared_ptr<World> world) {
    auto packed = code->Pack(weight);
    ASSERT_OK(packed);
    const kernels::PackedWeight kept = *packed;
    const auto parameter = PackedParameter("w", code, *std::move(packed), at::kBFloat16);
    EXPECT_EQ(parameter->dtype(), at::kBFloat16);
    EXPECT_EQ(parameter->shape(), weight.sizes());
    EXPECT_FALSE(parameter->trainable());
    const auto home = std::dynamic_pointer_cast<PackedHome>(parameter->home());
    ASSERT_NE(home, nullptr);
    EXPECT_EQ(home->bytes(), code->PackedBytes(weight.sizes()));
    home->Shard(world->communicator());
    at::Tensor bytes = at::full({1}, home->bytes(), at::kLong);
    ASSERT_OK(world->communicator()->AllReduceSum(bytes));
    EXPECT_EQ(bytes.item<int64_t>(), code->PackedBytes(weight.sizes()));
    if (ranks > 1) {
      EXPECT_LT(home->bytes(), code->PackedBytes(weight.sizes()) / ranks + 64);
    }
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      at::Tensor wanted = at::empty(weight.sizes(), dtype);
      code->Unpack(kept, wanted);
      parameter->Fetch(dtype);
      parameter->Fetch(dtype);  // a second Fetch has no effect
      const at::Tensor first = parameter->Lease(dtype), second = parameter->Lease(dtype);
      EXPECT_TRUE(at::equal(first, wanted)) << code->name();
      EXPECT_TRUE(at::equal(second, wanted)) << code->name();
      EXPECT_NE(first.const_data_ptr(), second.const_data_ptr());
      EXPECT_EQ(first.use_count(), 1);  // nothing else keeps the tensor
    }
  });
}

TEST(PackedHomeTest, LeasesWhatIsUnpacked) {
  for (const int ranks : {1, 2, 3}) {
    LeasesWhatIsUnpacked(std::make_shared<kernels::FourBitCode>(kernels::FourBits::kNf4, true),
                         ranks);
    LeasesWhatIsUnpacked(std::make_shared<kernels::FourBitCode>(kernels::FourBits::kFp4, false),
                         ranks);
    LeasesWhatIsUnpacked(std::make_shared<kernels::EightBitCode>(), ranks);
  }
}

TEST(PackedHomeTest, IsShardedOnce) {
  testing::RunRanks(2, [&](std::shared_ptr<World> world) {
    const auto code = std::make_shared<kernels::EightBitCode>();
    auto packed = code->Pack(Weight(2, 3));
    ASSERT_OK(packed);
    PackedHome home(code, *std::move(packed));
    home.Shard(world->communicator());
    EXPECT_THROW(home.Shard(world->communicator()), c10::Error);
  });
}

}  // namespace
}  // namespace moonring::comm
