#ifndef MOONRING_ATTENTION_PAGED_PAGED_ROWS_H_
#define MOONRING_ATTENTION_PAGED_PAGED_ROWS_H_

// Attention of some query rows of one kv head to keys in blocks (paged_keys.h), on a CPU. Scores
// exist for one block at a time, with a running softmax over the blocks (equations:
// softmax_merge.h). Uses the widest vectors of the CPU, selected at run time.
//
// Keys and values are fp32, fp64, bf16 or fp16; arithmetic and results are in fp32, or in fp64 for
// fp64. Each element of a result is a sum in the order of the keys, independent of other rows.

#include <cstdint>
#include <vector>

namespace moonring::attention {

// A block's rows that a query row attends to: none where begin == end.
struct SeenRows {
  int64_t begin = 0, end = 0;
};

// Blocks that the rows [first, end) of a task attend to, one after another. Row r of the task
// attends to seen[b * (end - first) + r - first] of block b.
struct PagedSweep {
  int64_t first = 0, end = 0;
  std::vector<int64_t> blocks;
  std::vector<SeenRows> seen;
};

// Sizes are in numbers; pointers are to numbers of the type that PagedNumbers names.
struct PagedTask {
  const void *keys = nullptr, *values = nullptr;  // of the layer
  int64_t kv_heads = 0, kv_head = 0, key_dim = 0, value_dim = 0;
  double softcap = 0.0;  // 0: none
  std::vector<PagedSweep> sweeps;
};

enum class PagedNumbers { kFloat, kDouble, kBFloat16, kHalf };

// `queries`: [M, D] in fp32 or fp64, already multiplied by the scale. out [M, Dv] and lse [M] in
// that dtype.
void RunPagedTask(const PagedTask& task, PagedNumbers numbers, int64_t rows, const void* queries,
                  void* out, void* lse);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_PAGED_ROWS_H_
