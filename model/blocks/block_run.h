#ifndef MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_

// How the block runner wants a block to be run, beside its weights and hidden states. It changes no
// result beyond rounding.

#include <cstdint>
#include <memory>
#include <vector>

#include "attention/attention.h"
#include "kernels/products/gradient_sum.h"

namespace moonring::model {

struct BlockRun {
  attention::KeptAttention* kept = nullptr;  // attention's; null where nothing is to be kept
  int64_t tile_bytes = 0;  // rows may be run in tiles that take so much (row_tiles.h); 0: all at
                           // once, as a graph that stays needs them
  int64_t tile_rows = 0;   // the fewest rows of a tile; 0: by device
  bool values = true;  // false: the results stand for their gradients alone, and their numbers need
                       // not be made
  bool gradient_is_free = false;  // a backward may write into the memory of the first result's
                                  // gradient, which nobody reads after it
  // Of each weight's gradient, in the order of the weights; null where it is autograd's, and all of
  // them where there are none. A block may leave a gradient to autograd all the same.
  std::vector<std::shared_ptr<kernels::GradientSum>> sums = {};
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_
