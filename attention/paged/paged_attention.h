#ifndef MOONRING_ATTENTION_PAGED_PAGED_ATTENTION_H_
#define MOONRING_ATTENTION_PAGED_PAGED_ATTENTION_H_

// Attention for decoding, without gradients: new query rows of several sequences attend to the keys
// of a cache, which are stored in blocks (paged_keys.h).
//
//   out_t = sum_s softmax_s(score(q_t . k_s)) v_s   over the tokens s of t's sequence that are in
//                                                   its blocks, s <= t and, under a window,
//                                                   s > t - window
//
// On a CPU blocks are read in place (paged_rows.h). A CPU task computes one kv head for about 64
// query rows, where each query head that reads the kv head counts as a row. Rows of adjacent
// sequences that begin with the same blocks share a task, which reads these blocks once: this is
// the case for several answers to one prompt. On a GPU a kernel reads blocks in place, for
// sequences with few new rows or few keys (paged_tasks.h); the host does not synchronize with the
// device. In all other cases (more rows and keys, other devices, fp64, head dims beyond 256) keys
// are gathered and attention is computed by the kernels that training uses (device_tile_runner.h).
//
// Each element of a result depends only on its own row and the keys that the row attends to, in the
// order of the blocks. It does not depend on other rows of the call or on the number of threads.
// (Exception: with gathered keys, the training kernels decide this.)
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

// A cache of the kernel's task tables on the device, by (query heads per kv head, window). Tables
// are made once and shared by all layers. A cache is valid for one set of runs on one device.
struct KeptTasks {
  struct Table {
    kernels::PagedTable table;
    at::Tensor there;
  };
  std::map<std::pair<int64_t, int64_t>, Table> tables;
};

// Attention of new rows to the keys of the cache. q_THD: the rows of all runs (a run is one
// sequence's new rows, paged_tasks.h), one run after another, in the dtype of the keys. Results are
// [T, H, Dv] and [T, H] in AccumulateType; rows without keys get out 0 and lse -inf. `kept` may be
// null. Throws c10::Error on invalid inputs.
PartialAttention PagedAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                const std::vector<PagedRun>& runs, const PagedRule& rule,
                                KeptTasks* kept = nullptr);

namespace internal {

// As PagedAttention, but on gathered copies of keys and values, by the kernels that training uses:
// for inputs that neither the CPU's code nor the GPU kernel supports. Works on any device.
PartialAttention GatheredAttention(const at::Tensor& q_THD, const PagedKeys& keys,
                                   const std::vector<PagedRun>& runs, const PagedRule& rule);

}  // namespace internal

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_PAGED_ATTENTION_H_
