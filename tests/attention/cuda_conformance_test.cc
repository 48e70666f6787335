// The kernels of a GPU against the definition of attention. Builds everywhere and skips where there
// is no GPU:
//
//   bazel test --config=cuda //tests/attention:cuda_conformance_test
//
// Has not been run on a GPU so far.

#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "attention/cuda_varlen_attention.h"
#include "attention/looped_varlen_attention.h"
#include "attention/reference_block_attention.h"
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

  // Relative. 16 bits: twice (out) and three times (gradients) what LibTorch's own bf16 kernel on
  // the CPU has, 2.0e-3 and 4.6e-3.
  static double Bound(bool is_gradient) {
    const at::ScalarType type = GetParam();
    if (type == at::kDouble) return 1e-12;
    return type == at::kFloat ? 2e-6 : is_gradient ? 1.4e-2 : 4e-3;
  }
};

INSTANTIATE_TEST_SUITE_P(, CudaConformanceTest,
                         ::testing::Values(at::kBFloat16, at::kHalf, at::kFloat, at::kDouble),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

const std::vector<Heads> kHeads = {{4, 4, 7},   {6, 2, 16},  {9, 3, 64},
                                   {7, 1, 128}, {2, 1, 256}, {2, 2, 264}};

TEST_P(CudaConformanceTest, EachKindOfTile) {
  const LoopedVarlenAttention reference(std::make_shared<ReferenceBlockAttention>());
  const CudaVarlenAttention cuda;
  for (const Heads& heads : kHeads) {
    for (const TileKind kind : {TileKind::kFull, TileKind::kCausal, TileKind::kWindowEdge}) {
      for (const auto& [one, softcap] : std::vector<std::pair<int64_t, double>>{
               {1, 0.0}, {333, 0.0}, {333, 1.5}}) {  // all tiles of one query, or some
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
          continue;  // one key each: the other gradients are 0 but for rounding
        EXPECT_TRUE(RelativeError(back.dq_MHD.cpu(), ideal.dq_MHD, Bound(true)));
        EXPECT_TRUE(RelativeError(back.dk_NKD.cpu(), ideal.dk_NKD, Bound(true)));
      }
    }
  }
}

TEST_P(CudaConformanceTest, DenseEqualsTheDefinition) {
  if (GetParam() == at::kHalf) GTEST_SKIP() << "attention takes no fp16";
  for (const Heads& heads : kHeads) {
    for (const int64_t window : {0, 50, 600}) {
      const Problem problem =
          RandomProblem({1, 2, 63, 0, 700, 64, 65, 2000}, heads, GetParam(), window);
      const auto on_gpu = [](const at::Tensor& rows) { return rows.to(at::kCUDA); };
      const Problem moved{problem.lengths,   on_gpu(problem.q),    on_gpu(problem.k),
                          on_gpu(problem.v), on_gpu(problem.dout), window};
      const Solution want = Written(problem), got = SolveAll({.name = "dense"}, 1, {moved})[0];
      for (int m = 0; m < 4; ++m)
        EXPECT_TRUE(RelativeError((got.*kMembers[m]).cpu(), want.*kMembers[m], Bound(m > 0)))
            << kNames[m] << ", window " << window;
    }
  }
}

}  // namespace
}  // namespace moonring::attention
