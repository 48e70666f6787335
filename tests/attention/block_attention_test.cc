// Tiles, their merge, and the tile runner, each compared with an explicit softmax in fp64.

#include "attention/kernels/block_attention.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include "attention/kernels/cpu_block_attention.h"
#include "attention/kernels/head_split.h"
#include "attention/kernels/reference_block_attention.h"
#include "attention/kernels/softmax_merge.h"
#include "attention/kernels/threaded_tile_runner.h"
#include "attention/kernels/tile_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "tests/testing/all_close.h"

namespace moonring::attention {
namespace {

using moonring::testing::BitEqual;
using moonring::testing::RelativeError;
using moonring::testing::RelativeErrorOf;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct TileShape {
  int64_t queries, keys, heads, kv_heads, head_dim;
  TileKind kind;
  int64_t value_dim = 0;  // 0: head_dim
};

const std::vector<TileShape> kShapes = {
    {1, 1, 1, 1, 8, TileKind::kCausal},         {1, 7, 4, 2, 8, TileKind::kFull},
    {3, 65, 9, 3, 16, TileKind::kFull},         {64, 64, 6, 1, 7, TileKind::kCausal},
    {1, 1, 4, 2, 8, TileKind::kWindowEdge},     {99, 99, 6, 2, 16, TileKind::kWindowEdge},
    {200, 200, 4, 4, 16, TileKind::kCausal},    {130, 513, 2, 2, 64, TileKind::kFull},
    {515, 1100, 3, 1, 8, TileKind::kFull},      {600, 600, 4, 2, 16, TileKind::kCausal},
    {600, 600, 2, 1, 7, TileKind::kWindowEdge}, {130, 513, 4, 2, 48, TileKind::kFull, 32},
    {600, 600, 2, 1, 12, TileKind::kCausal, 6}, {99, 99, 6, 2, 7, TileKind::kWindowEdge, 40},
};

// Softcaps: none; one that changes scores of about 1 strongly; and Gemma 2's, which hardly does.
constexpr double kSoftcaps[] = {0.0, 1.5, 50.0};

Tile RandomTile(const TileShape& shape, at::ScalarType type, double softcap = 0.0) {
  const auto random = [&](int64_t rows, int64_t heads, int64_t head_dim) {
    return at::randn({rows, heads, head_dim}, at::kDouble).to(type);
  };
  return {
      random(shape.queries, shape.heads, shape.head_dim),
      random(shape.keys, shape.kv_heads, shape.head_dim),
      random(shape.keys, shape.kv_heads, shape.value_dim > 0 ? shape.value_dim : shape.head_dim),
      shape.kind,
      {1.0 / std::sqrt(static_cast<double>(shape.head_dim)), softcap}};
}

Tile TileInDouble(const Tile& tile) {
  return {tile.q_MHD.to(at::kDouble), tile.k_NKD.to(at::kDouble), tile.v_NKD.to(at::kDouble),
          tile.kind, tile.score};
}

// fp32 kernels differ from fp64 by 3e-7 at these lengths, fp64 ones by 1e-15: the bounds leave an
// order of magnitude for other machines' GEMMs.
double Bound(at::ScalarType type) { return type == at::kDouble ? 1e-14 : 2e-6; }

// Relative error bounds of outputs and of gradients: bf16 tiles round the probabilities P and the
// score gradients dS by at most 2^-9, and dS is a small difference of larger numbers.
constexpr double kBf16Bound = 3e-3, kBf16GradientBound = 5e-3;

constexpr at::ScalarType kRowTypes[] = {at::kFloat, at::kBFloat16};

class BlockAttentionTest : public ::testing::Test {
 protected:
  void SetUp() override { at::manual_seed(7); }
};

void ExpectCpuEqualsReference(const TileShape& shape, at::ScalarType type, double softcap,
                              Bf16Tiles tiles = Bf16Tiles::kFp32) {
  SCOPED_TRACE(::testing::Message()
               << shape.queries << " x " << shape.keys << " " << type << ", softcap " << softcap
               << ", D " << shape.head_dim << (tiles == Bf16Tiles::kBf16 ? ", bf16 tiles" : ""));
  const Tile tile = RandomTile(shape, type, softcap);
  const CpuBlockAttention block(tiles);
  const bool narrow = block.ComputeType(type) == at::kBFloat16;
  const double bound = narrow ? kBf16Bound : Bound(type),
               gradient_bound = narrow ? kBf16GradientBound : Bound(type);
  const PartialAttention part = block.Forward(tile),
                         want = ReferenceBlockAttention().Forward(TileInDouble(tile));
  EXPECT_EQ(part.out_MHD.scalar_type(), AccumulateType(type));
  EXPECT_EQ(part.lse_MH.scalar_type(), AccumulateType(type));
  EXPECT_TRUE(RelativeError(part.out_MHD, want.out_MHD, bound));
  EXPECT_LT((part.lse_MH - want.lse_MH).abs().max().item<double>(),
            Bound(type));  // absolute error, since lse may be near 0

  const at::Tensor dout = at::randn_like(want.out_MHD).to(type);
  const TileGradients got = block.Backward(tile, dout, part.out_MHD, part.lse_MH);
  const TileGradients ideal = ReferenceBlockAttention().Backward(
      TileInDouble(tile), dout.to(at::kDouble), want.out_MHD, want.lse_MH);
  for (const at::Tensor& gradient : {got.dq_MHD, got.dk_NKD, got.dv_NKD})
    EXPECT_EQ(gradient.scalar_type(), AccumulateType(type));
  EXPECT_TRUE(RelativeError(got.dq_MHD, ideal.dq_MHD, gradient_bound) ||
              shape.keys == 1);  // with a single key, dq is 0 except for rounding
  EXPECT_TRUE(RelativeError(got.dk_NKD, ideal.dk_NKD, gradient_bound) || shape.keys == 1);
  EXPECT_TRUE(RelativeError(got.dv_NKD, ideal.dv_NKD, gradient_bound));
}

TEST_F(BlockAttentionTest, CpuEqualsReferenceForwardAndBackward) {
  for (const TileShape& shape : kShapes) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      for (const double softcap : kSoftcaps) ExpectCpuEqualsReference(shape, type, softcap);
    }
  }
}

// bf16 tiles of every kind equal the reference, with odd sizes and with those of real models. The
// fallback kernel that converts to fp32 must not be used.
TEST_F(BlockAttentionTest, Bf16TilesEqualTheReference) {
  if (!CanComputeBf16Tiles()) GTEST_SKIP() << "no AVX-512 BF16 here";
  EXPECT_EQ(CpuBlockAttention(Bf16Tiles::kBf16).ComputeType(at::kBFloat16), at::kBFloat16);
  EXPECT_EQ(CpuBlockAttention(Bf16Tiles::kFp32).ComputeType(at::kBFloat16), at::kFloat);
  std::vector<TileShape> shapes = kShapes;
  for (const int64_t dim : {7, 40, 80, 512}) {
    for (const TileKind kind : {TileKind::kCausal, TileKind::kWindowEdge})
      shapes.push_back({77, 77, 4, 2, dim, kind});
    shapes.push_back({35, 531, 3, 1, dim, TileKind::kFull});
  }
  for (const TileShape& shape : shapes) {
    for (const double softcap : kSoftcaps)
      ExpectCpuEqualsReference(shape, at::kBFloat16, softcap, Bf16Tiles::kBf16);
  }
}

// The error of our kernel relative to fp64 is at most that of LibTorch's bf16 flash attention on
// the same rows, which rounds at the same points and in addition rounds its results.
TEST_F(BlockAttentionTest, Bf16TilesAreAsExactAsLibTorchsFlash) {
  if (!CanComputeBf16Tiles()) GTEST_SKIP() << "no AVX-512 BF16 here";
  const Tile tile = RandomTile({2048, 2048, 4, 4, 64, TileKind::kCausal}, at::kBFloat16);
  const at::Tensor dout = at::randn_like(tile.q_MHD);
  const PartialAttention want = ReferenceBlockAttention().Forward(TileInDouble(tile));
  const TileGradients ideal = ReferenceBlockAttention().Backward(
      TileInDouble(tile), dout.to(at::kDouble), want.out_MHD, want.lse_MH);
  const auto batch = [](const at::Tensor& rows) { return rows.transpose(0, 1).unsqueeze(0); };
  const auto rows = [](const at::Tensor& batch) { return batch.squeeze(0).transpose(0, 1); };
  const at::Tensor q = batch(tile.q_MHD), k = batch(tile.k_NKD), v = batch(tile.v_NKD);
  const auto [out, lse] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true, {}, tile.score.scale);
  const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      batch(dout), q, k, v, out, lse, 0.0, true, {}, tile.score.scale);
  const auto errors = [&](const at::Tensor& out, const TileGradients& gradients) {
    return std::array<double, 4>{RelativeErrorOf(out, want.out_MHD),
                                 RelativeErrorOf(gradients.dq_MHD, ideal.dq_MHD),
                                 RelativeErrorOf(gradients.dk_NKD, ideal.dk_NKD),
                                 RelativeErrorOf(gradients.dv_NKD, ideal.dv_NKD)};
  };
  const auto ours = [&](Bf16Tiles tiles) {
    const CpuBlockAttention block(tiles);
    const PartialAttention part = block.Forward(tile);
    return errors(part.out_MHD, block.Backward(tile, dout, part.out_MHD, part.lse_MH));
  };
  const auto narrow = ours(Bf16Tiles::kBf16), upcast = ours(Bf16Tiles::kFp32),
             stock = errors(rows(out), {rows(dq), rows(dk), rows(dv)});
  for (int i = 0; i < 4; ++i) {
    std::printf("%s: upcast %.1e, bf16 tiles %.2e, LibTorch's flash in bf16 %.2e\n",
                std::array{"out", "dq", "dk", "dv"}[i], upcast[i], narrow[i], stock[i]);
    EXPECT_LE(upcast[i], 2e-6);
    EXPECT_LE(narrow[i], stock[i]);
  }
}

// The kernel is compiled for several kinds of CPU. Tests each kind that this CPU can run, and the
// portable one.
TEST_F(BlockAttentionTest, VectorsOfEveryWidthEqualTheReference) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (const int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    for (const TileShape& shape : kShapes) {
      for (const double softcap : kSoftcaps) ExpectCpuEqualsReference(shape, at::kFloat, softcap);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

// Attention of one tile computed from its definition, with all keys at once.
at::Tensor WrittenOut(const Tile& tile) {
  const int64_t repeats = tile.q_MHD.size(1) / tile.k_NKD.size(1);
  const auto by_head = [](const at::Tensor& rows, int64_t times) {
    return rows.repeat_interleave(times, 1).transpose(0, 1);
  };
  at::Tensor scores =
      at::matmul(by_head(tile.q_MHD, 1), by_head(tile.k_NKD, repeats).transpose(1, 2)) *
      tile.score.scale;
  if (tile.score.softcap > 0) scores = (scores / tile.score.softcap).tanh() * tile.score.softcap;
  const at::Tensor all = at::ones({scores.size(1), scores.size(2)}, at::kBool);
  if (tile.kind == TileKind::kCausal) scores = scores.masked_fill(all.triu(1), -kInfinity);
  if (tile.kind == TileKind::kWindowEdge) scores = scores.masked_fill(all.tril(-1), -kInfinity);
  return at::matmul(scores.softmax(2), by_head(tile.v_NKD, repeats)).transpose(0, 1);
}

// Bound: the two fp64 computations add the same few hundred terms in another order, with a rounding
// error of 1e-16 per term.
TEST_F(BlockAttentionTest, ReferenceEqualsAutogradOfSoftmax) {
  for (const TileShape& shape :
       std::vector<TileShape>{{50, 50, 6, 2, 8, TileKind::kCausal},
                              {50, 50, 6, 2, 7, TileKind::kWindowEdge},
                              {40, 60, 6, 2, 8, TileKind::kFull},
                              {530, 1030, 2, 1, 8, TileKind::kFull},
                              {530, 530, 2, 1, 8, TileKind::kCausal},
                              {530, 530, 2, 1, 8, TileKind::kWindowEdge}}) {
    for (const double softcap : kSoftcaps) {
      SCOPED_TRACE(::testing::Message()
                   << shape.queries << " x " << shape.keys << ", softcap " << softcap);
      Tile tile = RandomTile(shape, at::kDouble, softcap);
      for (at::Tensor* leaf : {&tile.q_MHD, &tile.k_NKD, &tile.v_NKD}) leaf->requires_grad_();
      const at::Tensor out = WrittenOut(tile), dout = at::randn_like(out);
      out.backward(dout);

      at::NoGradGuard no_grad;
      const PartialAttention part = ReferenceBlockAttention().Forward(tile);
      const TileGradients gradients =
          ReferenceBlockAttention().Backward(tile, dout, part.out_MHD, part.lse_MH);
      EXPECT_TRUE(RelativeError(part.out_MHD, out, 1e-14));
      EXPECT_TRUE(RelativeError(gradients.dq_MHD, tile.q_MHD.grad(), 1e-13));
      EXPECT_TRUE(RelativeError(gradients.dk_NKD, tile.k_NKD.grad(), 1e-13));
      EXPECT_TRUE(RelativeError(gradients.dv_NKD, tile.v_NKD.grad(), 1e-13));
    }
  }
}

// Gradients with a softcap equal central differences of sum(out * dout) along random directions, in
// fp64.
TEST_F(BlockAttentionTest, SoftcappedGradientsEqualFiniteDifferences) {
  constexpr double kStep = 1e-5;
  for (const TileKind kind : {TileKind::kFull, TileKind::kCausal, TileKind::kWindowEdge}) {
    const Tile tile = RandomTile({40, 40, 6, 2, 8, kind}, at::kDouble, /*softcap=*/1.5);
    const at::Tensor dout = at::randn_like(tile.q_MHD);
    const PartialAttention part = ReferenceBlockAttention().Forward(tile);
    const TileGradients gradients =
        ReferenceBlockAttention().Backward(tile, dout, part.out_MHD, part.lse_MH);
    const auto expect = [&](at::Tensor Tile::*leaf, const at::Tensor& gradient) {
      const at::Tensor direction = at::randn_like(tile.*leaf);
      const auto loss = [&](double step) {
        Tile shifted = tile;
        shifted.*leaf = tile.*leaf + direction * step;
        return (ReferenceBlockAttention().Forward(shifted).out_MHD * dout).sum().item<double>();
      };
      const double want = (gradient * direction).sum().item<double>();
      // The truncation error is O(step^2) = 1e-10 times third derivatives; rounding is 1e-16 |loss|
      // / step.
      EXPECT_NEAR((loss(kStep) - loss(-kStep)) / (2 * kStep), want,
                  1e-6 * std::max(1.0, std::abs(want)));
    };
    expect(&Tile::q_MHD, gradients.dq_MHD);
    expect(&Tile::k_NKD, gradients.dk_NKD);
    expect(&Tile::v_NKD, gradients.dv_NKD);
  }
}

TEST_F(BlockAttentionTest, AnyStridesGiveTheSameBits) {
  const auto head_major = [](const at::Tensor& rows) {
    return rows.transpose(0, 1).contiguous().transpose(0, 1);
  };
  const auto dim_first = [](const at::Tensor& rows) {
    return rows.transpose(0, 2).contiguous().transpose(0, 2);
  };  // last stride is not 1
  const auto cut_out = [](const at::Tensor& rows) {
    return at::constant_pad_nd(rows, {3, 5, 1, 2, 4, 1}, NAN)
        .slice(0, 4, -1)
        .slice(1, 1, -2)
        .slice(2, 3, -5);
  };
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> forms = {head_major, dim_first,
                                                                           cut_out};
  for (const double softcap : kSoftcaps)
    for (const at::ScalarType type : kRowTypes) {
      const Tile tile = RandomTile({70, 90, 4, 2, 16, TileKind::kFull}, type, softcap);
      const at::Tensor dout = at::randn_like(tile.q_MHD);
      const PartialAttention part = CpuBlockAttention().Forward(tile);
      const TileGradients gradients =
          CpuBlockAttention().Backward(tile, dout, part.out_MHD, part.lse_MH);
      for (const auto& form : forms) {
        const Tile strided{form(tile.q_MHD), form(tile.k_NKD), form(tile.v_NKD), tile.kind,
                           tile.score};
        const PartialAttention again = CpuBlockAttention().Forward(strided);
        EXPECT_TRUE(BitEqual(again.out_MHD, part.out_MHD));
        EXPECT_TRUE(BitEqual(again.lse_MH, part.lse_MH));
        const TileGradients back = CpuBlockAttention().Backward(
            strided, form(dout), form(part.out_MHD), part.lse_MH.t().contiguous().t());
        EXPECT_TRUE(BitEqual(back.dq_MHD, gradients.dq_MHD));
        EXPECT_TRUE(BitEqual(back.dk_NKD, gradients.dk_NKD));
        EXPECT_TRUE(BitEqual(back.dv_NKD, gradients.dv_NKD));
      }
    }
}

// A kernel call for some heads, also for some of the query heads of one kv head, gives the same
// bits as a call for all heads.
TEST_F(BlockAttentionTest, HeadsAloneGiveTheBitsOfAllHeads) {
  for (const int64_t head_dim : {7, 16, 20, 64, 128, 192}) {
    for (const int64_t rows : {1, 2, 3, 33, 64, 65, 129, 200, 256, 515}) {
      for (const TileKind kind : {TileKind::kCausal, TileKind::kFull}) {
        for (const double softcap : {0.0, 1.5})
          for (const at::ScalarType type : kRowTypes) {
            const Tile tile = RandomTile({rows, kind == TileKind::kFull ? rows + 100 : rows, 9, 3,
                                          head_dim, kind, head_dim == 192 ? 128 : 0},
                                         type, softcap);
            const PartialAttention all = CpuBlockAttention().Forward(tile);
            for (int64_t head = 0; head < 9; ++head) {
              for (int64_t count = 1; count <= 3 - head % 3; ++count) {
                const Tile some{tile.q_MHD.narrow(1, head, count),
                                tile.k_NKD.narrow(1, head / 3, 1),
                                tile.v_NKD.narrow(1, head / 3, 1), tile.kind, tile.score};
                const PartialAttention part = CpuBlockAttention().Forward(some);
                EXPECT_TRUE(BitEqual(part.out_MHD, all.out_MHD.narrow(1, head, count)))
                    << rows << " rows, " << count << " heads from " << head << ", D " << head_dim
                    << ", softcap " << softcap;
                EXPECT_TRUE(BitEqual(part.lse_MH, all.lse_MH.narrow(1, head, count)))
                    << rows << " rows, " << count << " heads from " << head << ", D " << head_dim
                    << ", softcap " << softcap;
              }
            }
          }
      }
    }
  }
}

// A NaN in a row propagates to the results, so that an error becomes visible. A kernel whose
// maximum or exponential ignores NaN would hide it.
TEST_F(BlockAttentionTest, NaNOfARowComesOutOfIt) {
  for (const double softcap : {0.0, 1.5})
    for (const at::ScalarType type : kRowTypes) {
      for (at::Tensor Tile::*input : {&Tile::q_MHD, &Tile::k_NKD, &Tile::v_NKD}) {
        Tile tile = RandomTile({70, 70, 2, 1, 16, TileKind::kCausal}, type, softcap);
        const at::Tensor dout = at::randn_like(tile.q_MHD);
        const PartialAttention sound = CpuBlockAttention().Forward(tile);
        (tile.*input)[50][0][3] = NAN;
        const PartialAttention part = CpuBlockAttention().Forward(tile);
        const bool is_query = input == &Tile::q_MHD, is_value = input == &Tile::v_NKD;
        EXPECT_TRUE(part.out_MHD[50][0].isnan().any().item<bool>());
        EXPECT_EQ(part.out_MHD[69][0].isnan().any().item<bool>(), !is_query);  // row 69 sees 50
        EXPECT_EQ(part.lse_MH[50][0].isnan().item<bool>(), !is_value);
        const TileGradients gradients =
            CpuBlockAttention().Backward(tile, dout, sound.out_MHD, sound.lse_MH);
        for (const at::Tensor& gradient : {gradients.dq_MHD, gradients.dk_NKD})
          EXPECT_TRUE(gradient.isnan().any().item<bool>());
      }
    }
}

template <typename Call>
std::string MessageOf(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST_F(BlockAttentionTest, RefusesWhatKernelsDoNotCheck) {
  const auto run = [](const TileShape& shape) {
    return MessageOf([&] { CpuBlockAttention().Forward(RandomTile(shape, at::kFloat)); });
  };
  EXPECT_THAT(run({0, 4, 2, 1, 8, TileKind::kFull}), HasSubstr("an empty tile"));
  EXPECT_THAT(run({4, 0, 2, 1, 8, TileKind::kFull}), HasSubstr("an empty tile"));
  EXPECT_THAT(run({4, 4, 5, 2, 8, TileKind::kFull}),
              HasSubstr("5 query heads are no multiple of 2 kv heads"));
  EXPECT_THAT(run({4, 5, 2, 1, 8, TileKind::kCausal}), HasSubstr("got 4 queries and 5 keys"));
  const Tile tile = RandomTile({4, 4, 2, 1, 8, TileKind::kFull}, at::kFloat);
  const PartialAttention part = CpuBlockAttention().Forward(tile);
  EXPECT_THAT(MessageOf([&] {
                CpuBlockAttention().Backward(tile, part.out_MHD, part.out_MHD,
                                             part.lse_MH.narrow(0, 0, 3));
              }),
              HasSubstr("expected lse [4, 2]"));
  EXPECT_THAT(MessageOf([&] {
                CpuBlockAttention().Backward(tile, part.out_MHD, part.out_MHD,
                                             part.lse_MH.to(at::kDouble));
              }),
              HasSubstr("lse must be"));
}

// ---- softmax_merge

SoftmaxState EmptyLike(const at::Tensor& out) {
  return SoftmaxState::Empty(out.size(0), out.size(1), out.size(2), out.options());
}

TEST_F(BlockAttentionTest, SixtyFourPartsMergeToTheWhole) {
  const Tile tile = RandomTile({40, 64 * 16, 2, 2, 32, TileKind::kFull}, at::kFloat);
  const PartialAttention want = ReferenceBlockAttention().Forward(TileInDouble(tile));
  SoftmaxState state = EmptyLike(tile.q_MHD);
  for (int64_t i = 0; i < 64; ++i) {
    Merge(CpuBlockAttention().Forward({tile.q_MHD, tile.k_NKD.narrow(0, 16 * i, 16),
                                       tile.v_NKD.narrow(0, 16 * i, 16), tile.kind, tile.score}),
          state);
  }
  const PartialAttention whole = Finish(state);
  EXPECT_TRUE(RelativeError(whole.out_MHD, want.out_MHD, 1e-6));
  EXPECT_LT((whole.lse_MH - want.lse_MH).abs().max().item<double>(), 2e-6);
}

TEST_F(BlockAttentionTest, OnePartComesBackBitForBit) {
  const PartialAttention part =
      CpuBlockAttention().Forward(RandomTile({33, 65, 4, 2, 16, TileKind::kFull}, at::kFloat));
  SoftmaxState state = EmptyLike(part.out_MHD);
  Merge(part, state);
  const PartialAttention whole = Finish(state);
  EXPECT_TRUE(BitEqual(whole.out_MHD, part.out_MHD));
  EXPECT_TRUE(BitEqual(whole.lse_MH, part.lse_MH));
}

TEST_F(BlockAttentionTest, ExtremeScoresNeitherOverflowNorVanish) {
  // Expected: out = sum e^(lse_i - max) out_i / sum e^(lse_i - max), for partial results whose lse
  // differ by 1e4 or are as large as 1e4.
  for (const std::vector<double>& lses : std::vector<std::vector<double>>{
           {1e4, 1e4 + 2, 1e4 - 1}, {-1e4, 1e4, 0}, {-1e4, -1e4 - 1, -1e4 + 3}, {3e38, 0, -3e38}}) {
    double max = -kInfinity, sum = 0, mean = 0;
    for (const double lse : lses) max = std::max(max, lse);
    SoftmaxState state = EmptyLike(at::empty({2, 1, 4}));
    for (size_t i = 0; i < lses.size(); ++i) {
      sum += std::exp(lses[i] - max);
      mean += std::exp(lses[i] - max) * static_cast<double>(i + 1);
      Merge({at::full({2, 1, 4}, static_cast<double>(i + 1)), at::full({2, 1}, lses[i])}, state);
    }
    const PartialAttention whole = Finish(state);
    EXPECT_TRUE(RelativeError(whole.out_MHD, at::full({2, 1, 4}, mean / sum), 1e-6)) << lses[0];
    EXPECT_TRUE(RelativeError(whole.lse_MH, at::full({2, 1}, max + std::log(sum)), 1e-6))
        << lses[0];
  }
}

TEST_F(BlockAttentionTest, TheEmptyPartIsTheIdentity) {
  const PartialAttention empty{at::zeros({2, 1, 4}), at::full({2, 1}, -kInfinity)},
      part{at::randn({2, 1, 4}), at::randn({2, 1})};
  SoftmaxState before = EmptyLike(part.out_MHD), after = EmptyLike(part.out_MHD),
               none = EmptyLike(part.out_MHD);
  Merge(empty, before), Merge(part, before);
  Merge(part, after), Merge(empty, after);
  Merge(empty, none), Merge(empty, none);
  for (const PartialAttention& whole : {Finish(before), Finish(after)}) {
    EXPECT_TRUE(BitEqual(whole.out_MHD, part.out_MHD));
    EXPECT_TRUE(BitEqual(whole.lse_MH, part.lse_MH));
  }
  const PartialAttention nothing = Finish(none);
  EXPECT_TRUE(BitEqual(nothing.out_MHD, empty.out_MHD));
  EXPECT_TRUE(BitEqual(nothing.lse_MH, empty.lse_MH));
}

// ---- threaded_tile_runner

struct BlocksResult {
  PartialAttention whole;
  QueryKeyValue gradients;
};

BlocksResult RunBlocks(const TilePlan& plan, const ScoreFunction& score, const QueryKeyValue& rows,
                       const at::Tensor& dout) {
  const int64_t heads = rows.q_THD.size(1), kv_heads = rows.k_SKD.size(1);
  const ThreadedTileRunner runner(std::make_shared<CpuBlockAttention>());
  const RunHeads run_heads{GroupHeads({{0, heads}, {0, kv_heads}}, heads / kv_heads), score};
  const SoftmaxState state = EmptyLike(rows.q_THD);
  runner.Forward(run_heads, plan, rows, state);
  BlocksResult result{
      Finish(state),
      {at::zeros_like(rows.q_THD), at::zeros_like(rows.k_SKD), at::zeros_like(rows.v_SKD)}};
  runner.Backward(run_heads, plan, rows, {dout, result.whole.out_MHD, result.whole.lse_MH},
                  result.gradients);
  return result;
}

TEST_F(BlockAttentionTest, ThreadsDoNotChangeTheForwardAndBarelyTheBackward) {
  const int threads = at::get_num_threads();
  const std::vector<int64_t> lengths = {700, 30, 1};
  const std::vector<comm::Span> spans = {{0, 0, 700}, {1, 0, 30}, {2, 0, 1}};
  const TilePlan plan =
      PlanTiles(lengths, spans, {{spans[0], 0}, {spans[1], 700}, {spans[2], 730}}, {.window = 300});
  const QueryKeyValue rows{at::randn({731, 2, 16}), at::randn({731, 1, 16}),
                           at::randn({731, 1, 16})};
  const at::Tensor dout = at::randn({731, 2, 16});
  for (const ScoreFunction& score : {ScoreFunction{0.25}, ScoreFunction{0.25, 1.5}}) {
    at::set_num_threads(1);
    const BlocksResult one = RunBlocks(plan, score, rows, dout);
    for (const int n : {2, 3, 5}) {
      at::set_num_threads(n);
      const BlocksResult many = RunBlocks(plan, score, rows, dout),
                         again = RunBlocks(plan, score, rows, dout);
      EXPECT_TRUE(BitEqual(many.whole.out_MHD, one.whole.out_MHD));
      EXPECT_TRUE(BitEqual(many.whole.lse_MH, one.whole.lse_MH));
      EXPECT_TRUE(BitEqual(many.gradients.q_THD, one.gradients.q_THD));
      // Several threads add in another order: 1e-6, as between any two orders in fp32. Two runs
      // with the same number of threads are bit-identical.
      EXPECT_TRUE(RelativeError(many.gradients.k_SKD, one.gradients.k_SKD, 1e-6));
      EXPECT_TRUE(RelativeError(many.gradients.v_SKD, one.gradients.v_SKD, 1e-6));
      EXPECT_TRUE(BitEqual(many.gradients.k_SKD, again.gradients.k_SKD));
      EXPECT_TRUE(BitEqual(many.gradients.v_SKD, again.gradients.v_SKD));
    }
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace moonring::attention
