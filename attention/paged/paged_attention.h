#ifndef MOONRING_ATTENTION_PAGED_PAGED_ATTENTION_H_
#define MOONRING_ATTENTION_PAGED_PAGED_ATTENTION_H_

// Attention for decoding, without gradients: new query rows of several sequences attend to keys
// that are stored in blocks (paged_keys.h).
//
//   out_t = sum_s softmax_s(score(q_t . k_s)) v_s   over the tokens s of t's sequence that are in
//                                                   its blocks, s <= t and, under a window,
//                                                   s > t - window
//
// On a CPU blocks are read in place (paged_rows.h). A task is one kv head and some rows, about 64
// including its query heads. Rows of adjacent sequences that begin with the same blocks share a
// task, which reads these blocks once: this is the case for several answers to one prompt. On a GPU
// a kernel reads blocks in place, for runs of few rows or few keys (paged_tasks.h), without a
// synchronization of the host. In all other cases (other runs, other devices, fp64, head dims
// beyond 256) keys are gathered and attention is computed in the device's tiles
// (device_tile_runner.h).
//
// Each element of a result depends only on its own row and the keys that the row attends to, in the
// order of the blocks: not on other rows of the call or the number of threads (with tiles: as the
// tiles' results do).
//
// Cost: 2 (D + Dv) flops for each query-key pair, and one read of each task's blocks. Gathered keys
// and values are copied three times.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernels/block_attention.h"
#include "attention/paged/paged_keys.h"
#include "attention/paged/paged_tasks.h"
#include "kernels/paged_attention.h"

namespace moonring::attention {

struct PagedRule {
  ScoreFunction score;
  int64_t window = 0;  // 0: none
};

// The task tables that were copied to the device, by (query heads per kv head, window). They are
// made once and shared by all layers, and are valid for one set of runs on one device.
struct KeptTasks {
  struct Table {
    kernels::PagedTable table;
    at::Tensor there;
  };
  std::map<std::pair<int64_t, int64_t>, Table> tables;
};

// q_THD: the rows of all runs, one run after another, in the dtype of the keys. Results are [T, H,
// Dv] and [T, H] in AccumulateType; rows without keys get out 0 and lse -inf. `kept` may be null.
// Throws.
PartialAttention PagedAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                const std::vector<PagedRun>& runs, const PagedRule& rule,
                                KeptTasks* kept = nullptr);

namespace internal {

// Attention over gathered copies of keys and values, by the tiles that training uses: for what
// neither the CPU's code nor the GPU kernel supports. Works on any device.
PartialAttention GatheredAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                   const std::vector<PagedRun>& runs, const PagedRule& rule);

}  // namespace internal

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_PAGED_ATTENTION_H_
