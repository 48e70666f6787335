#ifndef MOONRING_ATTENTION_PAGED_ATTENTION_H_
#define MOONRING_ATTENTION_PAGED_ATTENTION_H_

// Attention of new rows of several sequences over keys that lie in blocks (paged_keys.h), for
// decoding: no gradient.
//
//   out_t = sum_s softmax_s(score(q_t . k_s)) v_s   over the tokens s of t's sequence that are in
//                                                   its blocks, s <= t and, under a window, s > t -
//                                                   window
//
// On a CPU blocks are read where they lie (paged_rows.h). A task is one kv head and some rows, 64
// with its query heads or so; rows of sequences that lie side by side and begin with the same
// blocks are in one task, which reads those once for all of them: that is what answers to one
// prompt are. On a GPU a kernel reads them where they lie, for runs of few rows or keys
// (paged_tasks.h), without a wait of the host. Keys of other runs, of other devices, in fp64 and of
// heads beyond 256 are gathered, and go through the device's tiles (device_tile_runner.h).
//
// An element of a result depends on its own row and the keys that it sees alone, in the order of
// the blocks: not on what else is in the call nor on the number of threads (of tiles: as theirs
// do).
//
// Cost: 2 (D + Dv) flop for each pair of a query and a key, and one read of each task's blocks.
// Gathered keys and values are copied three times.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/block_attention.h"
#include "attention/paged_keys.h"
#include "attention/paged_tasks.h"
#include "kernels/paged_attention.h"

namespace moonring::attention {

struct PagedRule {
  ScoreFunction score;
  int64_t window = 0;  // 0: none
};

// The task tables that were copied to the device, by query heads a kv head and by window: made once
// for all layers. They are valid for one set of runs on one device.
struct KeptTasks {
  struct Table {
    kernels::PagedTable table;
    at::Tensor there;
  };
  std::map<std::pair<int64_t, int64_t>, Table> tables;
};

// q_THD: the runs' rows, one run after another, in the dtype of the keys. Results [T, H, Dv] and
// [T, H] in AccumulateType; rows that see no key give out 0, lse -inf. `kept` may be null. Throws.
PartialAttention PagedAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                const std::vector<PagedRun>& runs, const PagedRule& rule,
                                KeptTasks* kept = nullptr);

namespace internal {

// Attention over gathered copies of keys and values, by the tiles that training uses: for what
// neither the CPU's code nor the kernel takes. Works on any device.
PartialAttention GatheredAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                   const std::vector<PagedRun>& runs, const PagedRule& rule);

}  // namespace internal

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_ATTENTION_H_
