#ifndef MOONRING_ATTENTION_PAGED_ROWS_H_
#define MOONRING_ATTENTION_PAGED_ROWS_H_

// Some query rows of one kv head against keys in blocks (paged_keys.h), on a CPU: scores exist for
// one block at a time, and the softmax runs along the blocks (softmax_merge.h's equations). In the
// widest vectors that the CPU has, chosen at run time.
//
// Keys and values are fp32, fp64, bf16 or fp16; arithmetic and results are in fp32, fp64 for fp64.
// Each element of a result is sums in the order of the keys, whatever rows are beside it.

#include <cstdint>
#include <vector>

namespace moonring::attention {

// A block's rows that are seen by a row: none where begin == end.
struct SeenRows {
  int64_t begin = 0, end = 0;
};

// Blocks that rows [first, end) of a task meet, one after another. Row r of the task sees
// seen[b * (end - first) + r - first] of block b.
struct PagedSweep {
  int64_t first = 0, end = 0;
  std::vector<int64_t> blocks;
  std::vector<SeenRows> seen;
};

// Sizes in numbers; pointers are to the numbers that stand for `Stored` in LibTorch.
struct PagedTask {
  const void *keys = nullptr, *values = nullptr;  // of the layer
  int64_t kv_heads = 0, kv_head = 0, key_dim = 0, value_dim = 0;
  double softcap = 0.0;  // 0: none
  std::vector<PagedSweep> sweeps;
};

enum class PagedNumbers { kFloat, kDouble, kBFloat16, kHalf };

// `queries`: [M, D] of fp32 or fp64, times the scale. out [M, Dv], lse [M], in that dtype.
void RunPagedTask(const PagedTask& task, PagedNumbers numbers, int64_t rows, const void* queries,
                  void* out, void* lse);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_ROWS_H_
