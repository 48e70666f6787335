#ifndef MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_

// Options of one run of a block, set by the block runner. They do not change results beyond
// rounding.

#include <cstdint>
#include <memory>
#include <vector>

#include "attention/attention.h"
#include "kernels/products/gradient_sum.h"

namespace moonring::model {

struct BlockRun {
  attention::KeptAttention* kept = nullptr;  // for attention's result; null: nothing is kept
  // Memory limit of a tile of rows (row_tiles.h). 0: all rows at once, as needed if the graph is
  // kept.
  int64_t tile_bytes = 0;
  int64_t tile_rows = 0;  // minimum rows of a tile; 0: by device
  // false: results are needed only for their gradients, so their values need not be computed.
  bool values = true;
  // The backward may overwrite the memory of the first result's gradient, because nothing else
  // reads it afterwards.
  bool gradient_is_free = false;
  // Accumulate the weights' gradients, in the order of the weights. A null entry, or an empty list,
  // leaves the gradients to autograd. A block may leave a gradient to autograd even if it has a
  // sum.
  std::vector<std::shared_ptr<kernels::GradientSum>> sums = {};
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_
