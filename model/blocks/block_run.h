#ifndef MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_

// Options of one execution of a block, set by block_runner.h. They do not change results beyond
// rounding.

#include <cstdint>
#include <memory>
#include <vector>

#include "attention/attention.h"
#include "kernels/products/gradient_sum.h"

namespace moonring::model {

struct BlockRun {
  attention::KeptAttention* kept = nullptr;  // receives attention's result; null: not kept
  // Memory limit in bytes of a tile of rows (row_tiles.h). 0: all rows at once, which is required
  // if the autograd graph is kept.
  int64_t tile_bytes = 0;
  int64_t tile_rows = 0;  // minimum rows of a tile; 0: LeastTileRows(device)
  // false: only gradients are needed, so the values of the results need not be computed.
  bool values = true;
  // true: the backward may overwrite the gradient of the block's first result, because no other
  // code reads that gradient afterwards.
  bool gradient_is_free = false;
  // Accumulators of the weights' gradients, in the order of the weights. Autograd returns the
  // gradient of a weight whose entry is null, or of all weights if the list is empty. A block may
  // also let autograd return a gradient although the weight has an accumulator.
  std::vector<std::shared_ptr<kernels::GradientSum>> sums = {};
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_
