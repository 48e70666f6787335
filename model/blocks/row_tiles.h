#ifndef MOONRING_MODEL_BLOCKS_ROW_TILES_H_
#define MOONRING_MODEL_BLOCKS_ROW_TILES_H_

// Runs a function whose rows are independent on one tile of rows at a time (ALST's tiled MLP,
// arXiv:2506.13996 section 3.3, for everything after attention in a block):
//
//   forward    y_tile = f(weights, x_tile), tile by tile; only x is kept
//   backward   recomputes f on each tile, with its graph: writes dx_tile into dx, and sums dweights
//              over the tiles
//
// So the intermediate values of all rows never exist at once: memory besides x, y, dx and dweights
// is that of one tile. If the backward recomputes f anyway (recompute), this costs no further
// matrix product: `values` states whether a forward's values are needed.
//
// The sum over tiles is in fp32 (fp64 for fp64) in the order of the rows, and rounded once to the
// weight's dtype, unless f accumulates a weight's gradient elsewhere (gradient_sum.h). Tiles depend
// only on the number of rows and the memory limit. A row's bits are the same as without tiles if
// the matrix products are row-wise deterministic (CPU: tiles of a dozen rows or more).

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "absl/types/span.h"

namespace moonring::model {

// f(weights, rows of each input, index of the first row). Returns a tensor with one row per input
// row, then any number of sums over the rows. Must be pure.
using RowFunction = std::function<std::vector<at::Tensor>(
    absl::Span<const at::Tensor> weights, absl::Span<const at::Tensor> rows, int64_t begin)>;

struct RowTiles {
  int64_t tile_bytes = 0;    // memory limit of one tile
  int64_t row_bytes = 1;     // memory of one row
  int64_t least_rows = 512;  // minimum rows of a tile, whatever their memory (LeastTileRows)
  // false: results are needed only for their gradients, and their values are not computed.
  bool values = true;
  // The first input's gradient may be written into the memory of the first result's gradient.
  bool gradient_is_free = false;
  // Tensors with the results' shapes and dtypes; their values are ignored (StandIn).
  std::vector<at::Tensor> shapes;
};

// The minimum rows that a tile should have on a device, whatever their memory: with fewer the
// products are slow, and the cost of adding each tile's dweights dominates. 512 on a CPU. 8192 on a
// GPU, where a product of few rows is limited by reading the weights: with N rows and a [D, I]
// weight it does N operations per byte read. An H100 can do some 300 in that time, and several
// times more are needed once sums [D, I] in fp32 are read and written too.
int64_t LeastTileRows(const c10::Device& device);

// Rows per tile; the last tile may have another number.
int64_t RowsOfTile(const RowTiles& tiles, int64_t rows);

// A tensor of that shape that occupies the memory of one element.
at::Tensor StandIn(at::IntArrayRef sizes, const at::TensorOptions& options);

// Differentiable once, in `rows` and `weights` (all defined). All `rows` have the same number of
// rows; if it is zero, f runs once, on none.
std::vector<at::Tensor> RunInTiles(const RowFunction& function,
                                   const std::vector<at::Tensor>& weights,
                                   const std::vector<at::Tensor>& rows, const RowTiles& tiles);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ROW_TILES_H_
