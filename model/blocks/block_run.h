#ifndef MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_
#define MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_

// How the block runner wants a block to be run, beside its weights and hidden states. It changes no
// result beyond rounding.

#include <cstdint>

#include "attention/attention.h"

namespace moonring::model {

struct BlockRun {
  attention::KeptAttention* kept = nullptr;  // attention's; null where nothing is to be kept
  int64_t tile_bytes = 0;  // rows may be run in tiles that take so much (row_tiles.h); 0: all at
                           // once, as a graph that stays needs them
  bool values = true;  // false: the results stand for their gradients alone, and their numbers need
                       // not be made
  bool gradient_is_free = false;  // a backward may write into the memory of the first result's
                                  // gradient, which nobody reads after it
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_BLOCK_RUN_H_
