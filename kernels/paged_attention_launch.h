#ifndef MOONRING_KERNELS_PAGED_ATTENTION_LAUNCH_H_
#define MOONRING_KERNELS_PAGED_ATTENTION_LAUNCH_H_

// Arguments of the kernels in paged_attention.cu: the tensors of paged_attention.h, and pointers to
// the sections of its PagedTable (of_tasks to of_links).

#include <cstdint>

#include "kernels/launch.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int kPagedTokens = 64;  // per block of keys
constexpr int kPagedQueries = 8;  // per block of threads
constexpr int kPagedWidth = 256;  // maximum width of a key and of a value

struct PagedAttentionCall {
  Type type;      // of q, keys and values: fp32, bf16 or fp16
  const void* q;  // [T, H, D]
  int64_t q_row_stride, q_head_stride;
  const void *keys, *values;  // [N, Hk, D, 64], [N, Hk, 64, Dv]
  int64_t kv_heads, queries;  // H = kv_heads queries
  int64_t key_dim, value_dim;
  float scale, softcap;
  int64_t tasks, rows, most_rows;  // most_rows: maximum per task
  const int32_t *of_tasks, *of_blocks, *of_parts, *of_rows, *of_links;
  float* weighted;   // [parts, H, Dv]: per part the sum of e^(s - max) v
  float* sums;       // [parts, H, 2]: per part the max of s and the sum of e^(s - max)
  float *out, *lse;  // [T, H, Dv], [T, H]
};

// Launches two kernels, one for the tasks and one that merges their results; only the second if
// there are no tasks, none if there are no rows.
void LaunchPagedAttention(const PagedAttentionCall& call, void* stream);

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_PAGED_ATTENTION_LAUNCH_H_
