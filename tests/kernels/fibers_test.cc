#include "kernels/fibers.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/language.h"
#include "kernels/sums.h"
#include "kernels/vectors.h"

namespace moonring::kernels::on_cpu {
namespace {

constexpr uint64_t kSeeds[] = {0, 1, 2, 3};

std::string MessageOf(const Shape& shape, void (*kernel)(float*), float* out = nullptr) {
  try {
    Launch(shape, kernel, out);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

// Each thread writes its neighbor's value, which it reads from shared memory.
template <bool kWaits>
void Neighbours(float* out) {
  KERNEL_SHARED(float, values, 128);
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  if constexpr (kWaits) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

bool NeighboursAreRight(void (*kernel)(float*), uint64_t seed) {
  const fibers::OrderScope order(seed);
  std::vector<float> out(3 * 128, -1);
  Launch({.grid_x = 3, .block_x = 128}, kernel, out.data());
  for (int i = 0; i < 3 * 128; ++i) {
    if (out[i] != static_cast<float>((i + 1) % 128)) return false;
  }
  return true;
}

TEST(FibersTest, AMissingBarrierShows) {
  bool always = true;
  for (const uint64_t seed : kSeeds) {
    EXPECT_TRUE(NeighboursAreRight(&Neighbours<true>, seed)) << seed;
    always = NeighboursAreRight(&Neighbours<false>, seed) && always;
  }
  EXPECT_FALSE(always);
}

TEST(FibersTest, SumsAreRightInEveryOrder) {
  const auto kernel = +[](float* out) {
    const auto row = static_cast<int>(threadIdx.y);
    float sum = 0;
    for (int turn = 0; turn < 3; ++turn)
      sum += RowSum(static_cast<float>(threadIdx.x + threadIdx.y * 1000));
    if (threadIdx.x == 5) out[blockIdx.y * blockDim.y + row] = sum;
  };
  for (const uint64_t seed : kSeeds) {
    const fibers::OrderScope order(seed);
    for (const int width : {32, 96, 128}) {
      std::vector<float> out(2 * 4, NAN);
      Launch({.grid_y = 2, .block_x = width, .block_y = 4}, kernel, out.data());
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(out[i], 3.0f * width * ((width - 1) / 2.0f + 1000.0f * (i % 4))) << width;
      }
    }
  }
}

TEST(FibersTest, WarpOperations) {
  const auto kernel = +[](float* out) {
    const int i = static_cast<int>(threadIdx.x), value = 10 * i;
    float* const mine = out + 4 * i;
    mine[0] = static_cast<float>(__shfl_xor_sync(kWholeWarp, value, 5));
    mine[1] = static_cast<float>(__shfl_down_sync(kWholeWarp, value, 4));
    mine[2] = static_cast<float>(__shfl_sync(kWholeWarp, value, 7));
    mine[3] = static_cast<float>(__ballot_sync(kWholeWarp, i % 3 == 0) & 0xFFFF);
  };
  for (const uint64_t seed : kSeeds) {
    const fibers::OrderScope order(seed);
    std::vector<float> out(4 * 64, NAN);
    Launch({.block_x = 64}, kernel, out.data());
    for (int i = 0; i < 64; ++i) {
      const int warp = i / 32 * 32, lane = i % 32;
      EXPECT_EQ(out[4 * i], 10 * (i ^ 5));
      EXPECT_EQ(out[4 * i + 1], 10 * (lane + 4 < 32 ? i + 4 : i));
      EXPECT_EQ(out[4 * i + 2], 10 * (warp + 7));
      EXPECT_EQ(out[4 * i + 3], warp == 0 ? 0x9249 : 0x2492);
    }
  }
}

TEST(FibersTest, WhoIsMissingAtABarrierIsNamed) {
  const auto skips = +[](float*) {
    if (threadIdx.x != 7) __syncthreads();
  };
  const std::string message = MessageOf({.block_x = 64}, skips);
  EXPECT_NE(message.find("fibers_test.cc:"), std::string::npos) << message;
  EXPECT_NE(message.find("thread (7, 0) has ended"), std::string::npos) << message;
  const auto other = +[](float*) {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  };
  EXPECT_NE(MessageOf({.block_x = 64}, other).find("thread (32, 0) waits for its block"),
            std::string::npos);
}

TEST(FibersTest, WhoIsMissingInAWarpIsNamed) {
  const auto skips = +[](float* out) {
    if (threadIdx.x != 40) out[0] = __shfl_xor_sync(kWholeWarp, 1.0f, 1);
  };
  float out = 0;
  const std::string message = MessageOf({.block_x = 64}, skips, &out);
  EXPECT_NE(message.find("waits for its warp at fibers_test.cc:"), std::string::npos) << message;
  EXPECT_NE(message.find("thread (40, 0) has ended"), std::string::npos) << message;
  const auto part = +[](float* out) { out[0] = __shfl_xor_sync(0xFFFFu, 1.0f, 1); };
  EXPECT_NE(MessageOf({}, part, &out).find("less than a whole warp"), std::string::npos);
}

TEST(FibersTest, SharedMemoryHasAnEnd) {
  const auto beyond = +[](float*) {
    KERNEL_SHARED(float, values, 32);
    values[threadIdx.x + 1] = 1;
  };
  EXPECT_NE(MessageOf({}, beyond).find("beyond an array"), std::string::npos);
  const auto dynamic = +[](float*) {
    KERNEL_DYNAMIC_SHARED(float, values);
    values[threadIdx.x] = 1;
  };
  EXPECT_EQ(MessageOf({.shared_bytes = 128}, dynamic), "");
  EXPECT_NE(MessageOf({.shared_bytes = 124}, dynamic).find("beyond an array"), std::string::npos);
  EXPECT_NE(MessageOf({.shared_bytes = 1 << 20}, dynamic).find("48 KiB"), std::string::npos);
  const auto both = +[](float*) {
    KERNEL_SHARED(float, values, 32);
    KERNEL_DYNAMIC_SHARED(float, more);
    values[threadIdx.x] = more[threadIdx.x] = 1;
  };
  EXPECT_EQ(MessageOf({.shared_bytes = (48 << 10) - 128}, both), "");
  EXPECT_NE(MessageOf({.shared_bytes = (48 << 10) - 124}, both).find("48 KiB"), std::string::npos);
  // The first array takes 16 bytes, not 4, because the second one is aligned to 16.
  const auto little = +[](float*) {
    KERNEL_SHARED(float, value, 1);
    KERNEL_SHARED(float, values, 32);
    value[0] = values[threadIdx.x] = 1;
  };
  EXPECT_EQ(MessageOf({.shared_bytes = (48 << 10) - 144}, little), "");
  EXPECT_NE(MessageOf({.shared_bytes = (48 << 10) - 132}, little).find("48 KiB"),
            std::string::npos);
}

// The address of a load or store of several elements must be a multiple of its size.
TEST(FibersTest, AWordBeginsAtAMultipleOfItsSize) {
  alignas(16) float numbers[8] = {};
  const auto loads = +[](float* out) {
    out[threadIdx.x % 2] = WordAt<4>(static_cast<const float*>(out) + 4).at[0];
  };
  EXPECT_EQ(MessageOf({}, loads, numbers), "");
  EXPECT_NE(MessageOf({}, loads, numbers + 1).find("16 bytes, 4 bytes past a multiple of 16"),
            std::string::npos);
  const auto stores = +[](float* out) { Store<2>(out, 2, /*aligned=*/true, {1.0f, 2.0f}); };
  EXPECT_EQ(MessageOf({}, stores, numbers + 2), "");
  EXPECT_NE(MessageOf({}, stores, numbers + 1).find("a load or store of 8 bytes"),
            std::string::npos);
  // Shared arrays are aligned to 16 and 32 bytes, no more.
  const auto shared = +[](float* out) {
    KERNEL_SHARED(float, values, 128);
    KERNEL_DYNAMIC_SHARED(float, more);
    if (threadIdx.x == 0) {
      out[0] = static_cast<float>(reinterpret_cast<uintptr_t>(values) % 64);
      out[1] = static_cast<float>(reinterpret_cast<uintptr_t>(more) % 64);
    }
  };
  EXPECT_EQ(MessageOf({.shared_bytes = 64}, shared, numbers), "");
  EXPECT_EQ(numbers[0], 16);
  EXPECT_EQ(numbers[1], 32);
}

// An invalid launch throws before any thread runs. (A GPU would accept the last one; that blocks
// consist of whole warps is a rule of this code.)
TEST(FibersTest, AGridHasLimits) {
  const auto runs = +[](float*) { throw std::runtime_error("a thread runs"); };
  for (const Shape& shape : {Shape{.grid_x = 0}, Shape{.grid_y = 0}, Shape{.grid_y = 65536},
                             Shape{.grid_x = int64_t{1} << 31}, Shape{.block_x = 0},
                             Shape{.block_x = 32, .block_y = 33}, Shape{.block_x = 48}}) {
    EXPECT_NE(MessageOf(shape, runs).find("a GPU takes none such"), std::string::npos)
        << shape.grid_x << " x " << shape.grid_y << ", " << shape.block_x << " x " << shape.block_y;
  }
}

// Shared memory starts as NaN in each block, not with the values of the previous block.
TEST(FibersTest, SharedMemoryBeginsAsNan) {
  const auto kernel = +[](float* out) {
    KERNEL_SHARED(float, values, 32);
    out[blockIdx.x * 32 + threadIdx.x] = values[threadIdx.x];
    values[threadIdx.x] = 1;
  };
  std::vector<float> out(64, 0);
  Launch({.grid_x = 2}, kernel, out.data());
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

TEST(FibersTest, AFaultLeavesTheNextLaunchWhole) {
  const auto throws = +[](float*) {
    if (threadIdx.x == 3) throw std::runtime_error("from a kernel");
    __syncthreads();
  };
  EXPECT_EQ(MessageOf({.block_x = 128}, throws), "from a kernel");
  EXPECT_TRUE(NeighboursAreRight(&Neighbours<true>, 2));
  EXPECT_NE(MessageOf({.block_x = 33}, throws), "");
}

// Conversions round as LibTorch's do: every 16-bit value, and values near the midpoints between
// them.
TEST(FibersTest, RoundsAsLibTorchDoes) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const at::Tensor all =
        at::arange(0, 65536, at::kInt).to(at::kShort).view(dtype).to(at::kFloat).contiguous();
    const at::Tensor finite = all.masked_select(all.isfinite());
    const at::Tensor tried = at::cat({finite, finite * (1 + 0x1p-9), finite * (1 + 0x1p-12),
                                      finite * (1 - 0x1p-13) + 1e-9, finite * 1.0007});
    const at::Tensor wanted = tried.to(dtype);
    const float* x = tried.const_data_ptr<float>();
    const auto* bits = static_cast<const uint16_t*>(wanted.const_data_ptr());
    const at::Tensor back = wanted.to(at::kFloat);
    for (int64_t i = 0; i < tried.numel(); ++i) {
      const bool bf16 = dtype == at::kBFloat16;
      ASSERT_EQ(bf16 ? fibers::Bf16OfFloat(x[i]) : fibers::HalfOfFloat(x[i]), bits[i]) << x[i];
      const float wide = bf16 ? fibers::FloatOfBf16(bits[i]) : fibers::FloatOfHalf(bits[i]);
      ASSERT_EQ(wide, back.const_data_ptr<float>()[i]) << x[i];
    }
  }
}

}  // namespace
}  // namespace moonring::kernels::on_cpu
