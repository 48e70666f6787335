#include "model/blocks/row_tiles.h"

#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/testing/all_close.h"
#include "tests/testing/live_bytes.h"

namespace moonring::model {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::LiveBytes;
using ::moonring::testing::RelativeError;
using ::testing::ElementsAre;

constexpr int64_t kWide = 12, kTileInner = 20;

at::Tensor RandomTiles(at::IntArrayRef sizes) { return at::randn(sizes, at::kDouble); }

// A function of two inputs with rows: y = x + tanh(z W^T) V^T, and the sum over the rows of
// softmax(z W^T).
std::vector<at::Tensor> ToyOfRows(absl::Span<const at::Tensor> weights,
                                  absl::Span<const at::Tensor> rows, int64_t) {
  const at::Tensor inner = at::linear(rows[1], weights[0]);
  return {rows[0] + at::linear(inner.tanh(), weights[1]), inner.softmax(1).sum(0)};
}

RowTiles Tiles(int64_t rows, int64_t least) {
  return {.tile_bytes = 1,
          .row_bytes = 1,
          .least_rows = least,
          .shapes = {StandIn({rows, kWide}, at::kDouble), StandIn({kTileInner}, at::kDouble)}};
}

struct TileInputs {
  explicit TileInputs(int64_t rows)
      : x(RandomTiles({rows, kWide})),
        z(RandomTiles({rows, kWide})),
        w(RandomTiles({kTileInner, kWide})),
        v(RandomTiles({kWide, kTileInner})) {
    for (at::Tensor* each : {&x, &z, &w, &v}) each->requires_grad_();
  }
  std::vector<at::Tensor> All() const { return {x, z, w, v}; }
  at::Tensor x, z, w, v;
};

// Running a function in tiles of rows equals plain autograd on all rows. The numbers of rows give
// no tile, one tile, a short last tile, and a last tile that is so short that it is joined to the
// one before.
TEST(RowTilesTest, IsTheFunctionOfAllRows) {
  at::manual_seed(1);
  for (const int64_t rows : {0, 5, 64, 128, 200, 257, 260}) {
    const TileInputs inputs(rows);
    const at::Tensor dy = RandomTiles({rows, kWide}), dsum = RandomTiles({kTileInner});
    const std::vector<at::Tensor> whole =
        ToyOfRows(std::vector{inputs.w, inputs.v}, std::vector{inputs.x, inputs.z}, 0);
    const std::vector<at::Tensor> wanted = torch::autograd::grad(whole, inputs.All(), {dy, dsum});
    for (const bool values : {true, false}) {
      RowTiles tiles = Tiles(rows, 64);
      tiles.values = values;
      const std::vector<at::Tensor> tiled =
          RunInTiles(ToyOfRows, {inputs.w, inputs.v}, {inputs.x, inputs.z}, tiles);
      ASSERT_EQ(tiled[0].sizes(), whole[0].sizes());
      if (values) {
        EXPECT_TRUE(RelativeError(tiled[0], whole[0], 1e-15));
        EXPECT_TRUE(RelativeError(tiled[1], whole[1], 1e-14));
      }
      const std::vector<at::Tensor> gradients =
          torch::autograd::grad(tiled, inputs.All(), {dy, dsum});
      for (size_t i = 0; i < gradients.size(); ++i)
        EXPECT_TRUE(RelativeError(gradients[i], wanted[i], 1e-14)) << rows << " rows, input " << i;
    }
    at::NoGradGuard no_grad;
    EXPECT_TRUE(RelativeError(
        RunInTiles(ToyOfRows, {inputs.w, inputs.v}, {inputs.x, inputs.z}, Tiles(rows, 64))[0],
        whole[0], 1e-15));
  }
}

TEST(RowTilesTest, OneTileIsBitEqual) {
  at::manual_seed(2);
  const TileInputs inputs(100);
  const at::Tensor dy = RandomTiles({100, kWide}), dsum = RandomTiles({kTileInner});
  const auto of = [&](const std::vector<at::Tensor>& results) {
    return torch::autograd::grad(results, inputs.All(), {dy, dsum});
  };
  const auto whole =
      of(ToyOfRows(std::vector{inputs.w, inputs.v}, std::vector{inputs.x, inputs.z}, 0));
  const auto tiled =
      of(RunInTiles(ToyOfRows, {inputs.w, inputs.v}, {inputs.x, inputs.z}, Tiles(100, 512)));
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(BitEqual(tiled[i], whole[i]));
}

// Inputs that need no gradient cost nothing. A result that is not used has a gradient of zero.
TEST(RowTilesTest, Parts) {
  at::manual_seed(3);
  TileInputs inputs(200);
  inputs.w.requires_grad_(false);
  inputs.z.requires_grad_(false);
  const at::Tensor dsum = RandomTiles({kTileInner});
  const std::vector<at::Tensor> tiled =
      RunInTiles(ToyOfRows, {inputs.w, inputs.v}, {inputs.x, inputs.z}, Tiles(200, 64));
  tiled[0].sum().backward();
  EXPECT_FALSE(inputs.w.grad().defined());
  EXPECT_FALSE(inputs.z.grad().defined());
  EXPECT_TRUE(RelativeError(inputs.x.grad(), at::ones({200, kWide}, at::kDouble), 1e-15));
  const TileInputs others(200);
  RunInTiles(ToyOfRows, {others.w, others.v}, {others.x, others.z}, Tiles(200, 64))[1].backward(
      dsum);
  const auto wanted = torch::autograd::grad(
      {ToyOfRows(std::vector{others.w, others.v}, std::vector{others.x, others.z}, 0)[1]},
      {others.w, others.z}, {dsum});
  EXPECT_TRUE(RelativeError(others.w.grad(), wanted[0], 1e-14));
  EXPECT_TRUE(RelativeError(others.z.grad(), wanted[1], 1e-14));
}

// Sums of bf16 gradients over tiles are computed in fp32: a gradient of 1 + 2^-6 over 64 tiles is
// rounded once, not 64 times.
TEST(RowTilesTest, RoundsOnce) {
  const int64_t rows = 64 * 64;
  const RowFunction scaled =
      [](absl::Span<const at::Tensor> weights, absl::Span<const at::Tensor> inputs,
         int64_t) -> std::vector<at::Tensor> { return {inputs[0] * weights[0]}; };
  const at::Tensor w = at::ones({1}, at::kBFloat16).requires_grad_();
  at::Tensor x = at::zeros({rows, 1}, at::kBFloat16);
  x.view({64, 64}).select(1, 0).fill_(1.015625);
  RowTiles tiles{.tile_bytes = 1,
                 .row_bytes = 1,
                 .least_rows = 64,
                 .shapes = {StandIn({rows, 1}, at::kBFloat16)}};
  RunInTiles(scaled, {w}, {x}, tiles)[0].backward(at::ones({rows, 1}, at::kBFloat16));
  EXPECT_EQ(w.grad().item<double>(), 65.0);
}

// The gradient of x may be stored in the memory of the gradient of y, with the same values; the
// other gradients do not change.
TEST(RowTilesTest, ReusesAGradientThatIsFree) {
  at::manual_seed(4);
  const TileInputs inputs(200);
  const at::Tensor dy = RandomTiles({200, kWide}), dsum = RandomTiles({kTileInner});
  RowTiles tiles = Tiles(200, 64);
  const auto of = [&](const at::Tensor& gradient) {
    return torch::autograd::grad(
        RunInTiles(ToyOfRows, {inputs.w, inputs.v}, {inputs.x, inputs.z}, tiles), inputs.All(),
        {gradient, dsum});
  };
  const auto wanted = of(dy);
  tiles.gradient_is_free = true;
  const at::Tensor free = dy.clone();
  const auto gradients = of(free);
  EXPECT_EQ(gradients[0].data_ptr(), free.data_ptr());
  for (size_t i = 0; i < gradients.size(); ++i) EXPECT_TRUE(BitEqual(gradients[i], wanted[i]));
}

TEST(RowTilesTest, SeesTheRowsNumbers) {
  std::vector<int64_t> begins;
  const RowFunction function = [&](absl::Span<const at::Tensor>, absl::Span<const at::Tensor> rows,
                                   int64_t begin) -> std::vector<at::Tensor> {
    begins.push_back(begin);
    return {rows[0] + static_cast<double>(begin)};
  };
  const at::Tensor x = at::zeros({200, 1}, at::kDouble);
  const at::Tensor y =
      RunInTiles(function, {}, {x},
                 {.row_bytes = 1, .least_rows = 64, .shapes = {StandIn({200, 1}, at::kDouble)}})[0];
  EXPECT_THAT(begins, ElementsAre(0, 64, 128));  // the last eight rows are part of the third tile
  EXPECT_EQ(y[199].item<double>(), 128.0);
  EXPECT_EQ(y[63].item<double>(), 0.0);
}

// The inner features of only one tile are in memory at a time.
TEST(RowTilesTest, Memory) {
  const int64_t rows = 64 * 100, inner = 1000;
  const at::Tensor x = RandomTiles({rows, 1}).requires_grad_(),
                   w = RandomTiles({inner, 1}).requires_grad_(),
                   v = RandomTiles({1, inner}).requires_grad_();
  const RowFunction mlp = [](absl::Span<const at::Tensor> weights,
                             absl::Span<const at::Tensor> inputs,
                             int64_t) -> std::vector<at::Tensor> {
    return {at::linear(at::linear(inputs[0], weights[0]).tanh(), weights[1])};
  };
  LiveBytes live;
  const at::Tensor y = RunInTiles(
      mlp, {w, v}, {x},
      {.row_bytes = 1, .least_rows = 64, .shapes = {StandIn({rows, 1}, at::kDouble)}})[0];
  y.sum().backward();
  const int64_t tile = 64 * inner * 8;
  EXPECT_LE(live.peak(), 6 * tile + 8 * rows * 8);
  EXPECT_GE(live.peak(), tile);
}

TEST(RowTilesTest, RowsOfTile) {
  EXPECT_EQ(RowsOfTile({.tile_bytes = 1 << 20, .row_bytes = 1024}, 5000),
            1024);  // as many rows as fit, in equal tiles
  EXPECT_EQ(RowsOfTile({.tile_bytes = 1 << 20, .row_bytes = 1024}, 1100), 576);
  EXPECT_EQ(RowsOfTile({.tile_bytes = 1 << 20, .row_bytes = 1 << 20}, 5000),
            512);  // but not fewer than are computed fast
  EXPECT_EQ(RowsOfTile({.tile_bytes = 1 << 20, .row_bytes = 1024}, 7), 7);
  EXPECT_EQ(RowsOfTile({.tile_bytes = 1 << 20, .row_bytes = 1024}, 0), 1);
  // On a GPU a tile has at least 8192 rows (or all rows), even if they need more memory than
  // allowed.
  const RowTiles gpu{.tile_bytes = 1 << 20,
                     .row_bytes = 1 << 20,
                     .least_rows = LeastTileRows(c10::Device(c10::kCUDA, 0))};
  EXPECT_EQ(RowsOfTile(gpu, 8192), 8192);
  EXPECT_EQ(RowsOfTile(gpu, 16000), 8000);
  EXPECT_EQ(RowsOfTile(gpu, 5000), 5000);
}

TEST(RowTilesTest, StandInsTakeNoMemory) {
  LiveBytes live;
  const at::Tensor large = StandIn({1 << 20, 1 << 10}, at::kFloat);
  EXPECT_EQ(large.sizes(), (std::vector<int64_t>{1 << 20, 1 << 10}));
  EXPECT_LE(live.now(), 64);
}

TEST(RowTilesTest, RefusesMisfits) {
  const at::Tensor x = RandomTiles({4, 2});
  EXPECT_THROW(RunInTiles(ToyOfRows, {}, {}, Tiles(4, 64)), c10::Error);
  EXPECT_THROW(RunInTiles(ToyOfRows, {}, {x, RandomTiles({5, 2})}, Tiles(4, 64)), c10::Error);
  const RowFunction one = [](absl::Span<const at::Tensor>, absl::Span<const at::Tensor> rows,
                             int64_t) -> std::vector<at::Tensor> { return {rows[0]}; };
  EXPECT_THROW(RunInTiles(one, {}, {x}, Tiles(4, 64)), c10::Error);
}

}  // namespace
}  // namespace moonring::model
