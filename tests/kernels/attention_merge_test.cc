// Merging of partial attention results. Three implementations are compared: the CPU's, and on the
// pretend device (a simulated GPU) the kernel and LibTorch's operators (MOONRING_KERNELS=composed).

#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "attention/kernels/softmax_merge.h"
#include "tests/testing/all_close.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::attention {
namespace {

using ::moonring::testing::KernelChoice;
using ::moonring::testing::RelativeError;

constexpr int64_t kMergeRows = 19, kMergeHeads = 6, kHeadDim = 16;

// Merges partial results for all rows, for a range of rows and some heads, and for rows given by
// their indices. The first rows have no partial results. `part`: the dtype of partial outputs on a
// GPU.
PartialAttention Run(at::ScalarType sums, at::ScalarType part, c10::Device device) {
  at::Generator(at::globalContext().defaultGenerator(at::kCPU)).set_current_seed(3);
  const SoftmaxState state = SoftmaxState::Empty(kMergeRows, kMergeHeads, kHeadDim,
                                                 at::TensorOptions(sums).device(device));
  const auto random = [&](int64_t rows, int64_t heads) -> PartialAttention {
    // The CPU only supports the sums' dtype, so it gets the same values in that dtype.
    const at::Tensor out = at::randn({rows, heads, kHeadDim}, at::kDouble).to(part);
    return {(device.is_cpu() ? out.to(sums) : out).to(device),
            at::randn({rows, heads}, at::kDouble).mul_(3.0).to(sums).to(device)};
  };
  SoftmaxState later = state.Slice({2, kMergeRows}, 0, kMergeHeads),
               some = state.Slice({4, 11}, 1, 3);
  Merge(random(kMergeRows - 2, kMergeHeads), later);
  Merge(random(7, 3), some);
  Merge(random(4, kMergeHeads), at::tensor({17, 3, 9, 4}, at::kLong).to(device), state);
  const PartialAttention whole = Finish(state);
  return {whole.out_MHD.to(at::kCPU), whole.lse_MH.to(at::kCPU)};
}

void CheckMerge(at::ScalarType sums, at::ScalarType part, double bound) {
  SCOPED_TRACE(::testing::Message() << part << " into " << sums);
  const PartialAttention wanted = Run(sums, part, at::kCPU);
  for (const char* word : {"fused", "composed"}) {
    SCOPED_TRACE(word);
    const KernelChoice choice(word);
    pretend::ResetCounts();
    const PartialAttention made = Run(sums, part, c10::Device(c10::kCUDA, 0));
    auto counted = pretend::CountsNow().kernels;
    const bool fused = word == std::string("fused");
    EXPECT_EQ(counted["softmax_merge"], fused ? 3 : 0);
    EXPECT_EQ(counted["softmax_finish"], fused ? 1 : 0);
    EXPECT_TRUE(RelativeError(made.out_MHD, wanted.out_MHD, bound));
    const at::Tensor lse = made.lse_MH.slice(0, 2), of = wanted.lse_MH.slice(0, 2);
    EXPECT_TRUE(RelativeError(lse, of, bound));
    EXPECT_TRUE(made.lse_MH.slice(0, 0, 2).isneginf().all().item<bool>());
  }
}

TEST(AttentionKernelsTest, TheSameThreeWays) {
  CheckMerge(at::kFloat, at::kFloat, 1e-6);
  CheckMerge(at::kFloat, at::kBFloat16, 1e-6);
  CheckMerge(at::kFloat, at::kHalf, 1e-6);
  CheckMerge(at::kDouble, at::kDouble, 1e-14);
}

}  // namespace
}  // namespace moonring::attention
