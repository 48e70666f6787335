// Attention over paged keys on the pretend device (a simulated GPU), by the kernel and by
// LibTorch's operators (MOONRING_KERNELS=composed), compared with attention computed from its
// definition.

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "attention/paged/paged_attention.h"
#include "gtest/gtest.h"
#include "tests/attention/paged_problem.h"
#include "tests/testing/all_close.h"
#include "tests/testing/kernel_choice.h"
#include "tests/testing/pretend_device/device.h"

namespace moonring::attention {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::KernelChoice;
using ::moonring::testing::RelativeError;

const c10::Device kGpu(c10::kCUDA, 0);

PartialAttention OnHost(const PartialAttention& made) {
  return {made.out_MHD.to(at::kCPU), made.lse_MH.to(at::kCPU)};
}

// Error bounds. The kernel's sums are in fp32 (fp64 inputs use another implementation). LibTorch's
// flash attention, and the tiles of runs that the kernel does not support, round the factors of
// products to the keys' 16-bit dtype.
double BoundOnDevice(at::ScalarType type) {
  if (type == at::kDouble) return 2e-14;
  if (type == at::kFloat) return 2e-6;
  return type == at::kHalf ? 2e-3 : 1e-2;
}

void CheckDecoding(at::ScalarType type, const PagedShape& shape, const PagedRule& rule) {
  SCOPED_TRACE(::testing::Message() << type << ", " << shape.heads << " heads of " << shape.dim
                                    << " and " << shape.value_dim << ", window " << rule.window
                                    << ", softcap " << rule.score.softcap);
  PagedProblem problem(type, shape, kGpu);
  problem.AddAll();
  const PartialAttention wanted = problem.Wanted(rule);
  const bool takes = type != at::kDouble && shape.dim <= 256;
  for (const char* word : {"fused", "composed"}) {
    SCOPED_TRACE(word);
    const KernelChoice choice(word);
    pretend::ResetCounts();
    const PartialAttention made =
        OnHost(PagedAttention(problem.q, problem.paged, problem.Runs(), rule));
    const bool fused = takes && word == std::string("fused");
    EXPECT_EQ(pretend::CountsNow().kernels["paged_attention"], fused ? 1 : 0);
    EXPECT_TRUE(RelativeError(made.out_MHD, wanted.out_MHD, BoundOnDevice(type)));
    EXPECT_TRUE(RelativeError(made.lse_MH, wanted.lse_MH, BoundOnDevice(type)));
    if (!fused) continue;
    // Rows in decoding: those of the first runs, and that of the last run.
    const int64_t decoded = 6, all = made.lse_MH.size(0);
    for (const int64_t first : {int64_t{0}, all - 2}) {
      const int64_t rows = first == 0 ? decoded : 2;
      EXPECT_TRUE(RelativeError(made.out_MHD.narrow(0, first, rows),
                                wanted.out_MHD.narrow(0, first, rows), 2e-6));
    }
  }
}

TEST(PagedDeviceTest, IsAttentionOfEachRow) {
  const at::NoGradGuard no_grad;
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    CheckDecoding(type, {}, {{0.3, 0.0}, 0});
  }
  CheckDecoding(at::kBFloat16, {8, 1, 64, 64}, {{0.2, 0.0}, 100});
  CheckDecoding(at::kBFloat16, {2, 2, 80, 80}, {{0.2, 0.0}, 1});
  CheckDecoding(at::kFloat, {2, 1, 192, 128}, {{0.1, 1.5}, 0});
  CheckDecoding(at::kFloat, {2, 2, 40, 33}, {{0.2, 1.5}, 100});
  CheckDecoding(at::kFloat, {1, 1, 320, 64}, {{0.1, 0.0}, 0});
}

TEST(PagedDeviceTest, ARowDoesNotDependOnWhatIsBesideIt) {
  const at::NoGradGuard no_grad;
  PagedProblem problem(at::kBFloat16, {4, 2, 32, 32}, kGpu);
  problem.Add(900, 1);
  problem.Add(897, 1, 0);
  problem.Add(900, 1, 0);
  problem.Add(3, 1);
  problem.Add(700, 3, 0);
  problem.Draw();
  const PagedRule rule{{0.3, 0.0}, 0};
  const auto runs = problem.Runs();
  const PartialAttention all = OnHost(PagedAttention(problem.q, problem.paged, runs, rule));
  int64_t row = 0;
  for (const PagedRun& run : runs) {
    const PartialAttention alone =
        OnHost(PagedAttention(problem.q.narrow(0, row, run.rows), problem.paged, {run}, rule));
    EXPECT_TRUE(BitEqual(alone.out_MHD, all.out_MHD.narrow(0, row, run.rows)));
    EXPECT_TRUE(BitEqual(alone.lse_MH, all.lse_MH.narrow(0, row, run.rows)));
    row += run.rows;
  }
}

// The table of runs is copied to the device once for all layers with the same window, without
// synchronization.
TEST(PagedDeviceTest, IsLoggedOnce) {
  const at::NoGradGuard no_grad;
  PagedProblem problem(at::kFloat, {4, 2, 16, 16}, kGpu);
  for (const int64_t tokens : {70, 200, 1}) problem.Add(tokens, 1);
  problem.Draw();
  const auto runs = problem.Runs();
  KeptTasks kept;
  pretend::ResetCounts();
  std::vector<PartialAttention> made;
  for (const int64_t window : {0, 100, 0, 100})
    made.push_back(PagedAttention(problem.q, problem.paged, runs, {{0.3, 0.0}, window}, &kept));
  const pretend::Counts counts = pretend::CountsNow();
  EXPECT_EQ(counts.to_device.count, 2);
  EXPECT_EQ(counts.to_device.blocking, 0);
  EXPECT_EQ(counts.Synchronizations(), 0);
  EXPECT_EQ(counts.kernels.at("paged_attention"), 4);
  EXPECT_TRUE(BitEqual(made[0].out_MHD.to(at::kCPU), made[2].out_MHD.to(at::kCPU)));
  EXPECT_TRUE(BitEqual(made[1].out_MHD.to(at::kCPU), made[3].out_MHD.to(at::kCPU)));
}

// A rank may have no key of a sequence.
TEST(PagedDeviceTest, NoKeysHere) {
  const at::NoGradGuard no_grad;
  PagedProblem problem(at::kFloat, {}, kGpu);
  problem.Add(100, 1);
  problem.Add(70, 1);
  problem.Draw();
  std::vector<PagedRun> runs = problem.Runs();
  runs[0].blocks = {};
  const PartialAttention made =
      OnHost(PagedAttention(problem.q, problem.paged, runs, {{0.3, 0.0}, 0}));
  EXPECT_TRUE(BitEqual(made.out_MHD[0], at::zeros({6, 24}, at::kFloat)));
  EXPECT_TRUE(made.lse_MH[0].isneginf().all().item<bool>());
  EXPECT_TRUE(made.out_MHD[1].isfinite().all().item<bool>());
}

}  // namespace
}  // namespace moonring::attention
