#ifndef MOONRING_MODEL_BLOCKS_ROW_TILES_H_
#define MOONRING_MODEL_BLOCKS_ROW_TILES_H_

// A function of rows that do not mix, run on a tile of them at a time (ALST's tiled MLP,
// arXiv:2506.13996 section 3.3, of all that follows attention in a block):
//
//   forward    y_tile = f(weights, x_tile), tile after tile; nothing is kept but x
//   backward   f again on each tile, with its graph: dx_tile into its place, dweights = sum over
//              the tiles
//
// So what f makes of all rows never exists at once. What is in memory beside x, y, dx and dweights
// is the work of one tile. Where backward makes f's values again anyway (recompute) this costs no
// further product: `values` says that a forward's numbers are not wanted.
//
// The sum over tiles is made in fp32 (fp64 for fp64) in the order of the rows, and rounded once to
// the weight's dtype; not where f adds a weight's gradient up elsewhere (gradient_sum.h). Tiles
// depend on the number of rows and the budget alone; rows give the bits that they give as a whole
// where the matrix products do (CPU: tiles of a dozen rows or more).

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "absl/types/span.h"

namespace moonring::model {

// f(weights, rows of each input, the first row's number). It gives a tensor with a row for each
// row, then any number of sums over the rows. Pure.
using RowFunction = std::function<std::vector<at::Tensor>(
    absl::Span<const at::Tensor> weights, absl::Span<const at::Tensor> rows, int64_t begin)>;

struct RowTiles {
  int64_t tile_bytes = 0;    // what one tile may take at work
  int64_t row_bytes = 1;     // what one row takes
  int64_t least_rows = 512;  // of a tile, whatever they take (LeastTileRows)
  bool values =
      true;  // false: the results stand for their gradients alone, and their numbers are not made
  bool gradient_is_free =
      false;  // the first input's gradient may be made in the memory of the first result's
  std::vector<at::Tensor>
      shapes;  // tensors like the results, whose numbers do not matter (StandIn)
};

// What a tile should have at least on such a device, whatever its rows take: below it the products
// are slow, and each tile's dweights are added. 512 on a CPU. 8192 on a GPU, where a product of
// fewer rows waits for its weights' bytes: of N rows and a [D, I] weight it makes N operations for
// each byte read, and an H100 can make some 300 of them in that byte's time, several times more
// once sums [D, I] in fp32 are read and written.
int64_t LeastTileRows(const c10::Device& device);

// Rows of a tile; the last may have fewer.
int64_t RowsOfTile(const RowTiles& tiles, int64_t rows);

// A tensor of that shape in the memory of one number.
at::Tensor StandIn(at::IntArrayRef sizes, const at::TensorOptions& options);

// Differentiable in `rows` and `weights` (all defined), once. All `rows` have equally many, zero
// perhaps: then f runs once, on none.
std::vector<at::Tensor> RunInTiles(const RowFunction& function,
                                   const std::vector<at::Tensor>& weights,
                                   const std::vector<at::Tensor>& rows, const RowTiles& tiles);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_ROW_TILES_H_
