// Gradients of a GPU that are summed in host memory, on the pretend device (a simulated GPU). That
// device ends the process if a stream does not wait for another stream's work, or the host for a
// copy. The sums are bit-identical to the GPU's; the host waits once per step; and no more memory
// than documented stays on the GPU.

#include "trainer/sharding/host_sums.h"

#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/memory/pinned_memory.h"
#include "tests/testing/pretend_device/counts.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::trainer {
namespace {

const c10::Device kDevice(c10::kCUDA, 0);

at::Tensor OnDevice(int64_t numel, double scale, at::ScalarType dtype) {
  const at::Tensor there = (at::arange(numel, at::kDouble).sin() * scale).to(dtype).to(kDevice);
  return there.mul(1);  // by a kernel, which nobody has waited for
}

class HostSumsTest : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(HostSumsTest, AreTheDevices) {
  constexpr int64_t kNumel = 5000, kPiece = 1024;
  HostSums sums(kDevice, /*leaving_bytes=*/kNumel * 4, kPiece);
  HostSum sum{base::PinnedTensor({kNumel}, at::kFloat)};
  for (int step = 0; step < 2; ++step) {
    at::Tensor there;
    for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
      at::Tensor gradient = OnDevice(kNumel, 1.3 + step + micro_batch, GetParam());
      there = there.defined() ? there.add_(gradient) : gradient.to(at::kFloat, false, true);
      // In two pieces, as a shard's gradient is added.
      sums.Add(sum, 0, gradient.narrow(0, 0, 3000));
      sums.Add(sum, 3000, gradient.narrow(0, 3000, kNumel - 3000));
    }
    sums.Wait();
    sum.any = false;
    EXPECT_TRUE(at::equal(sum.numbers, there.cpu())) << step;
    sum.numbers.mul_(0.5);  // a clip, which the next step copies over
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostSumsTest, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return c10::toString(info.param); });

TEST(HostSumsTest, LeaveTheDevice) {
  constexpr int64_t kNumel = 1 << 16, kBytes = kNumel * 4;
  const pretend::Counts before = pretend::CountsNow();
  HostSums sums(kDevice, 2 * kBytes);
  std::vector<HostSum> all(8);
  for (HostSum& sum : all) sum.numbers = base::PinnedTensor({kNumel}, at::kFloat);
  for (HostSum& sum : all) {
    sums.Add(sum, 0, OnDevice(kNumel, 1, at::kFloat));
    EXPECT_LE(pretend::CountsNow().held_bytes - before.held_bytes, 2 * kBytes);
  }
  const pretend::Counts sent = pretend::CountsNow();
  EXPECT_EQ(sent.to_host.bytes - before.to_host.bytes, 8 * kBytes);
  EXPECT_EQ(sent.to_host.blocking, before.to_host.blocking);
  sums.Wait();
  const pretend::Counts after = pretend::CountsNow();
  EXPECT_EQ(after.held_bytes, before.held_bytes);
  EXPECT_EQ(after.Synchronizations() - sent.Synchronizations(), 1);
  for (const HostSum& sum : all)
    EXPECT_TRUE(at::equal(sum.numbers, OnDevice(kNumel, 1, at::kFloat).cpu()));
}

// Chunks are reused for any sequence of sizes.
TEST(PinnedChunksTest, AreUsedAgain) {
  const auto pool = std::make_shared<base::PinnedChunks>(/*chunk_bytes=*/4096);
  for (const int64_t numel : {5000, 3000, 4097, 5000}) {
    const std::vector<at::Tensor> pieces = pool->Take(numel, at::kFloat);
    int64_t room = 0;
    for (const at::Tensor& piece : pieces) {
      EXPECT_TRUE(pretend::IsPinned(piece.const_data_ptr()));
      room += piece.numel();
    }
    EXPECT_EQ(room, numel);
    const at::Tensor there = OnDevice(numel, 1, at::kFloat), back = at::empty_like(there);
    base::CopyToPieces(there, pieces);
    base::CopyFromPieces(pieces, back);
    EXPECT_TRUE(at::equal(back.cpu(), there.cpu()));
  }
  EXPECT_EQ(pool->held_bytes(), 5 * 4096);
  EXPECT_EQ(pool->Take(100, at::kFloat).size(), 1);  // LibTorch's
  EXPECT_EQ(pool->held_bytes(), 5 * 4096);
}

}  // namespace
}  // namespace moonring::trainer
