// The GPU's attention kernels compared with attention computed from its definition. The test can be
// built on every machine; without a GPU its cases are skipped:
//
//   bazel test --config=cuda //tests/attention:cuda_conformance_test

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "absl/strings/str_format.h"
#include "attention/kernels/cuda_varlen_attention.h"
#include "attention/kernels/device_tile_runner.h"
#include "attention/kernels/kernel_choice.h"
#include "attention/kernels/kernel_timing.h"
#include "attention/kernels/looped_varlen_attention.h"
#include "attention/kernels/reference_block_attention.h"
#include "gtest/gtest.h"
#include "tests/attention/problem.h"
#include "tests/testing/all_close.h"

namespace moonring::attention {
namespace {

using moonring::testing::RelativeError;

class CudaConformanceTest : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
    at::manual_seed(11);
  }

  // Relative bounds. For 16-bit dtypes: twice (out) or three times (gradients) the errors of
  // LibTorch's bf16 kernel on the CPU, which are 2.0e-3 and 4.6e-3.
  static double Bound(bool is_gradient) {
    const at::ScalarType type = GetParam();
    if (type == at::kDouble) return 1e-12;
    // Memory-efficient attention multiplies in 3xTF32. A query with a single key has a zero
    // gradient, computed as the rounding error of two sums that cancel: 5.8e-6 of the whole on an
    // H100.
    if (type == at::kFloat) return is_gradient ? 1e-5 : 2e-6;
    return is_gradient ? 1.4e-2 : 4e-3;
  }
};

INSTANTIATE_TEST_SUITE_P(, CudaConformanceTest,
                         ::testing::Values(at::kBFloat16, at::kHalf, at::kFloat, at::kDouble),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

const std::vector<Heads> kHeads = {{4, 4, 7},   {6, 2, 16},  {9, 3, 64},
                                   {7, 1, 128}, {2, 1, 256}, {2, 2, 264}};

// The default choice of kernels, and one in which flash attention computes everything that cuDNN
// would.
const std::vector<KernelChoice> kChoices = {{}, {0}};

at::Tensor OnGpu(const at::Tensor& rows) { return rows.to(at::kCUDA); }

TEST_P(CudaConformanceTest, EachKindOfTile) {
  const LoopedVarlenAttention reference(std::make_shared<ReferenceBlockAttention>());
  for (const KernelChoice& choice : kChoices) {
    const CudaVarlenAttention cuda(choice);
    for (const Heads& heads : kHeads) {
      for (const TileKind kind : {TileKind::kFull, TileKind::kCausal, TileKind::kWindowEdge}) {
        for (const auto& [one, softcap] : std::vector<std::pair<int64_t, double>>{
                 {1, 0.0}, {333, 0.0}, {333, 1.5}}) {  // all tiles, or some, have a single query
          const std::vector<int64_t> queries = {0, one, one + 1, 2 * one + 1},
                                     keys = kind == TileKind::kFull
                                                ? std::vector<int64_t>{0, 700, 701, 950}
                                                : queries;
          const auto random = [&](int64_t rows, int64_t of) {
            return at::randn({rows, of, heads.head_dim}, at::kDouble).to(GetParam());
          };
          const double scale = 1 / std::sqrt(static_cast<double>(heads.head_dim));
          const VarlenTiles tiles{random(queries.back(), heads.heads),
                                  random(keys.back(), heads.kv_heads),
                                  random(keys.back(), heads.kv_heads),
                                  queries,
                                  keys,
                                  kind,
                                  {scale, softcap}};
          VarlenTiles on_gpu = tiles, exact = tiles;
          for (at::Tensor VarlenTiles::*rows :
               {&VarlenTiles::q_MHD, &VarlenTiles::k_NKD, &VarlenTiles::v_NKD}) {
            on_gpu.*rows = (tiles.*rows).to(at::kCUDA);
            exact.*rows = (tiles.*rows).to(at::kDouble);
          }
          const at::Tensor dout = random(queries.back(), heads.heads);
          const PartialAttention got = cuda.Forward(on_gpu), want = reference.Forward(exact);
          EXPECT_TRUE(RelativeError(got.out_MHD.cpu(), want.out_MHD, Bound(false)));
          EXPECT_LT((got.lse_MH.cpu() - want.lse_MH).abs().max().item<double>(),
                    GetParam() == at::kDouble ? 1e-12 : 1e-5);
          const TileGradients back =
              cuda.Backward(on_gpu, dout.to(at::kCUDA), got.out_MHD, got.lse_MH);
          const TileGradients ideal =
              reference.Backward(exact, dout.to(at::kDouble), want.out_MHD, want.lse_MH);
          EXPECT_TRUE(RelativeError(back.dv_NKD.cpu(), ideal.dv_NKD, Bound(true)));
          if (one == 1 && kind != TileKind::kFull)
            continue;  // a single key: the other gradients are 0 except for rounding
          EXPECT_TRUE(RelativeError(back.dq_MHD.cpu(), ideal.dq_MHD, Bound(true)));
          EXPECT_TRUE(RelativeError(back.dk_NKD.cpu(), ideal.dk_NKD, Bound(true)));
        }
      }
    }
  }
}

// Logits that are all far below zero, with numbers of keys that fill half of a cuDNN tile.
TEST_P(CudaConformanceTest, LogitsFarBelowZero) {
  if (GetParam() != at::kBFloat16 && GetParam() != at::kHalf) GTEST_SKIP() << "cuDNN's dtypes";
  const LoopedVarlenAttention reference(std::make_shared<ReferenceBlockAttention>());
  const CudaVarlenAttention cudnn(KernelChoice{0});
  for (const int64_t keys : {64, 128, 192, 320}) {
    const int64_t queries = 128, heads = 4, head_dim = 128;
    const auto ones = [&](int64_t rows) { return at::ones({rows, heads, head_dim}, at::kDouble); };
    const auto noise = [&](int64_t rows) {
      return at::randn({rows, heads, head_dim}, at::kDouble);
    };
    const VarlenTiles exact{.q_MHD = (ones(queries) + 0.05 * noise(queries)).to(GetParam()),
                            .k_NKD = (-11.0 * ones(keys) + 0.5 * noise(keys)).to(GetParam()),
                            .v_NKD = noise(keys).to(GetParam()),
                            .query_offsets = {0, queries},
                            .key_offsets = {0, keys},
                            .kind = TileKind::kFull,
                            .score = {1 / std::sqrt(static_cast<double>(head_dim))}};
    VarlenTiles on_gpu = exact, wide = exact;
    for (at::Tensor VarlenTiles::*rows :
         {&VarlenTiles::q_MHD, &VarlenTiles::k_NKD, &VarlenTiles::v_NKD}) {
      on_gpu.*rows = OnGpu(exact.*rows);
      wide.*rows = (exact.*rows).to(at::kDouble);
    }
    const at::Tensor dout = noise(queries).to(GetParam());
    const PartialAttention got = cudnn.Forward(on_gpu), want = reference.Forward(wide);
    ASSERT_LT(want.lse_MH.max().item<double>(), -89);
    const TileGradients back = cudnn.Backward(on_gpu, OnGpu(dout), got.out_MHD, got.lse_MH);
    const TileGradients ideal =
        reference.Backward(wide, dout.to(at::kDouble), want.out_MHD, want.lse_MH);
    EXPECT_TRUE(RelativeError(back.dv_NKD.cpu(), ideal.dv_NKD, Bound(true))) << keys;
    // The keys are near -11, so all scores are near -124. Two scores differ by little compared with
    // that, and in 16-bit products fewer digits of the difference are exact: the bound is three
    // times as large.
    EXPECT_TRUE(RelativeError(back.dk_NKD.cpu(), ideal.dk_NKD, 3 * Bound(true))) << keys;
    EXPECT_TRUE(back.dq_MHD.isfinite().all().item<bool>()) << keys;
  }
}

// Queries at the end of their documents attend to all keys, with windows: all-gather makes such
// calls, which flash attention supports natively.
TEST_P(CudaConformanceTest, BandsOfLastQueries) {
  const int64_t long_one = 700, last = 190, short_one = 333;
  for (const Heads& heads : kHeads) {
    if (!CudaVarlenAttention().TakesBands(GetParam(), heads.head_dim, {})) continue;
    for (const int64_t window : {0, 1, 50, 600}) {
      Problem problem = RandomProblem({long_one, short_one}, heads, GetParam(), window);
      problem.dout.narrow(0, 0, long_one - last).zero_();
      const auto of_queries = [&](const at::Tensor& rows) {
        return rows.narrow(0, long_one - last, last + short_one);
      };
      const VarlenTiles tiles{.q_MHD = OnGpu(of_queries(problem.q)),
                              .k_NKD = OnGpu(problem.k),
                              .v_NKD = OnGpu(problem.v),
                              .query_offsets = {0, last, last + short_one},
                              .key_offsets = {0, long_one, long_one + short_one},
                              .kind = TileKind::kBand,
                              .score = {problem.scale()},
                              .window = window};
      const Solution want = Written(problem);
      const CudaVarlenAttention cuda;
      const PartialAttention got = cuda.Forward(tiles);
      EXPECT_EQ(got.out_MHD.scalar_type(), GetParam());
      EXPECT_TRUE(RelativeError(got.out_MHD.cpu(), of_queries(want.out), Bound(false)));
      const TileGradients back =
          cuda.Backward(tiles, OnGpu(of_queries(problem.dout)), got.out_MHD, got.lse_MH);
      EXPECT_TRUE(RelativeError(back.dv_NKD.cpu(), want.dv, Bound(true)));
      if (window == 1) continue;  // a single key: the other gradients are 0 except for rounding
      EXPECT_TRUE(RelativeError(back.dq_MHD.cpu(), of_queries(want.dq), Bound(true)));
      EXPECT_TRUE(RelativeError(back.dk_NKD.cpu(), want.dk, Bound(true)));
    }
  }
}

// The kernels between which a run chooses give equal results, and timing them leads to a choice.
TEST_P(CudaConformanceTest, KernelsAreTimed) {
  if (GetParam() != at::kBFloat16) GTEST_SKIP() << "there is a choice in bf16";
  const at::Device device(at::kCUDA);
  const std::vector<KernelTiming> timings =
      TimeKernels({32, 8, 128}, {2048, 8192, 32768}, device, DeviceStopwatch(device));
  EXPECT_EQ(timings.size(), 3);
  std::string told;
  for (const KernelTiming& timing : timings) {
    EXPECT_GT(timing.flash_seconds, 0);
    absl::StrAppendFormat(&told, "%d tokens: flash %.3f ms, cuDNN %.3f and %.0f once; ",
                          timing.length, 1e3 * timing.flash_seconds,
                          1e3 * timing.cudnn_seconds.value_or(NAN), 1e3 * timing.build_seconds);
  }
  for (const int64_t head_dim : {192, 256}) {
    const auto wide = TimeKernels({16, 8, head_dim}, {8192}, device, DeviceStopwatch(device));
    ASSERT_EQ(wide.size(), 1);
    absl::StrAppendFormat(&told, "16 heads of %d, 8192 tokens: flash %.3f ms, cuDNN %.3f; ",
                          head_dim, 1e3 * wide[0].flash_seconds,
                          1e3 * wide[0].cudnn_seconds.value_or(NAN));
  }
  RecordProperty("timings", told);
  RecordProperty("choice", ToString(ChooseKernels(timings, {32, 8192})));
}

TEST_P(CudaConformanceTest, DenseEqualsTheDefinition) {
  for (const Heads& heads : kHeads) {
    for (const int64_t window : {0, 50, 600}) {
      const Problem problem =
          RandomProblem({1, 2, 63, 0, 700, 64, 65, 2000}, heads, GetParam(), window);
      const Problem moved{problem.lengths,  OnGpu(problem.q),    OnGpu(problem.k),
                          OnGpu(problem.v), OnGpu(problem.dout), window};
      const Solution want = Written(problem);
      for (const KernelChoice& choice : kChoices) {
        const Solution got = SolveAll({.name = "dense"}, 1, {moved}, [&](const at::Device& device) {
          return ChosenTileRunner(device, choice);
        })[0];
        for (int m = 0; m < 4; ++m)
          EXPECT_TRUE(RelativeError((got.*kMembers[m]).cpu(), want.*kMembers[m], Bound(m > 0)))
              << kNames[m] << ", window " << window << ", " << ToString(choice);
      }
    }
  }
}

}  // namespace
}  // namespace moonring::attention
