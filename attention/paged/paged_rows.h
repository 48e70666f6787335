#ifndef MOONRING_ATTENTION_PAGED_PAGED_ROWS_H_
#define MOONRING_ATTENTION_PAGED_PAGED_ROWS_H_

// Attention of some query rows to the keys of one kv head, which are stored in blocks
// (paged_keys.h), on a CPU. Scores exist for one block at a time, with a running softmax over the
// blocks (equations: softmax_merge.h). Uses the widest vectors of the CPU, selected at run time.
//
// Keys and values are fp32, fp64, bf16 or fp16; arithmetic and results are in fp32, or in fp64 for
// fp64. Each element of a result is a sum in the order of the keys, independent of other rows.

#include <cstdint>
#include <vector>

namespace moonring::attention {

// The rows [begin, end) of a block that a query row attends to; none where begin == end.
struct SeenRows {
  int64_t begin = 0, end = 0;
};

// The blocks that the query rows [first, end) of a task read, in this order. Query row r attends to
// the rows seen[b * (end - first) + r - first] of the block blocks[b].
struct PagedSweep {
  int64_t first = 0, end = 0;
  std::vector<int64_t> blocks;
  std::vector<SeenRows> seen;
};

// One kv head's keys and values, and what the task computes on them. Pointers are to numbers of the
// type that PagedNumbers names.
struct PagedTask {
  const void *keys = nullptr, *values = nullptr;  // of the layer
  int64_t kv_heads = 0, kv_head = 0, key_dim = 0, value_dim = 0;
  double softcap = 0.0;  // 0: none
  std::vector<PagedSweep> sweeps;
};

enum class PagedNumbers { kFloat, kDouble, kBFloat16, kHalf };

// Computes a task of M = `rows` query rows. `queries`: [M, D] in fp32 or fp64, already multiplied
// by the scale. out [M, Dv] and lse [M] in that dtype.
void RunPagedTask(const PagedTask& task, PagedNumbers numbers, int64_t rows, const void* queries,
                  void* out, void* lse);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_PAGED_ROWS_H_
