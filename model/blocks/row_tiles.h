#ifndef MOONRING_MODEL_BLOCKS_ROW_TILES_H_
#define MOONRING_MODEL_BLOCKS_ROW_TILES_H_

// Runs a function whose rows are independent on one tile of rows at a time (ALST's tiled MLP,
// arXiv:2506.13996 section 3.3, for everything after attention in a block):
//
//   forward    y_tile = f(weights, x_tile), tile by tile; only x is kept
//   backward   recomputes f on each tile, with its graph: writes dx_tile into dx, and sums dweights
//              over the tiles
//
// So the intermediate values exist only for one tile at a time: memory in addition to x, y, dx and
// dweights is that of one tile. If activations are recomputed anyway, tiles cost no further matrix
// product, because a recomputation can skip the forward's values (`values` is false).
//
// The sum over tiles is in fp32 (fp64 for fp64) in the order of the rows, and rounded once to the
// weight's dtype, unless f accumulates a weight's gradient elsewhere (gradient_sum.h). The division
// into tiles depends only on the number of rows and the memory limit. The results have the same
// bits with and without tiles if the bits of a row of a matrix product do not depend on the number
// of rows (true on CPUs for tiles of a dozen rows or more).

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "absl/types/span.h"

namespace moonring::model {

// The function f(weights, a tile of rows of each input, index of the first row). Returns a tensor
// with one row per input row, followed by any number of tensors that are sums over the rows. Must
// be pure.
using RowFunction = std::function<std::vector<at::Tensor>(
    absl::Span<const at::Tensor> weights, absl::Span<const at::Tensor> rows, int64_t begin)>;

struct RowTiles {
  int64_t tile_bytes = 0;    // memory limit of one tile
  int64_t row_bytes = 1;     // memory of the intermediate values of one row
  int64_t least_rows = 512;  // minimum rows of a tile, even above tile_bytes (LeastTileRows)
  // false: only gradients are needed, and the values of the results are not computed.
  bool values = true;
  // true: the backward may overwrite the gradient of the first result with the gradient of the
  // first input.
  bool gradient_is_free = false;
  // Tensors with the shapes and dtypes of f's results, for example from StandIn; their values are
  // ignored.
  std::vector<at::Tensor> shapes;
};

// The minimum number of rows that a tile should have on a device, even if their memory is above the
// limit: with fewer rows the matrix products are slow, and the cost of adding each tile's dweights
// dominates. 512 on a CPU. 8192 on a GPU, where a product of few rows is limited by reading the
// weights: with N rows and a [D, I] weight in bf16, a product does N operations per byte read. An
// H100 can do some 300 operations in the time of reading one byte, and N must be several times
// larger because the fp32 gradient [D, I] is read and written too.
int64_t LeastTileRows(const c10::Device& device);

// Number of rows per tile; the last tile may have fewer.
int64_t RowsOfTile(const RowTiles& tiles, int64_t rows);

// A tensor of shape `sizes` that occupies the memory of one element (strides 0).
at::Tensor StandIn(at::IntArrayRef sizes, const at::TensorOptions& options);

// Runs the function in tiles. Differentiable once, in `rows` and `weights`, which must all be
// defined. All tensors of `rows` have the same number of rows; if that number is 0, the function is
// called once with empty tensors.
std::vector<at::Tensor> RunInTiles(const RowFunction& function,
                                   const std::vector<at::Tensor>& weights,
                                   const std::vector<at::Tensor>& rows, const RowTiles& tiles);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ROW_TILES_H_
