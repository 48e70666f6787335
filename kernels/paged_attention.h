#ifndef MOONRING_KERNELS_PAGED_ATTENTION_H_
#define MOONRING_KERNELS_PAGED_ATTENTION_H_

// Paged attention: attention of some rows of q over keys and values that are stored in blocks,
// without copying them (operator moonring::paged_attention). attention/paged/paged_keys.h describes
// the storage; attention/paged/paged_tasks.h determines which row attends to which keys. Long
// sequences are cut into pieces and each piece is a separate task, so that even one row uses the
// whole GPU ("flash decoding", Dao et al. 2023; merged as in Milakov and Gimelshein 2018,
// arXiv:1805.02867):
//
//   a task    m_p = max_s s_ts;  l_p = sum_s e^(s_ts - m_p);  A_p = sum_s e^(s_ts - m_p) v_s
//             for each of its rows t, over the tokens s of its blocks, where
//             s_ts = scale q_t . k_s, or softcap tanh(scale q_t . k_s / softcap)
//   a row     m = max_p m_p;  l = sum_p l_p e^(m_p - m);  out = sum_p A_p e^(m_p - m) / l;
//             lse = m + log l    over the tasks p with this row; without any: out 0, lse -inf
//
// T rows, H query heads, Hk kv heads, N blocks of 64 tokens, D and Dv: head dims of keys and
// values. q [T, H, D], keys [N, Hk, D, 64] and values [N, Hk, 64, Dv] are in fp32, bf16 or fp16,
// with D and Dv at most 256. out [T, H, Dv] and lse [T, H] are in fp32; rows without a result are
// not changed. Sums are in fp32 and in a fixed order: a row's result depends on the row itself, the
// keys that it attends to and how they are cut, but not on the other rows.
//
// A block of threads processes up to 8 queries of one task that share a kv head, and reads this
// head's keys and values once for all of them. Cost: the bytes of a task's keys and values once,
// and once more for each further 8 queries of a kv head; 2 (D + Dv) flop per query and key; and for
// each part (one row of one task) 2 x 4 H (Dv + 2) bytes of partial results.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"

namespace moonring::kernels {

inline constexpr char kPagedAttention[] = "moonring::paged_attention";

// Tokens [begin, end) of a block.
struct PagedBlock {
  int64_t block = 0, begin = 0, end = 0;
  friend bool operator==(const PagedBlock&, const PagedBlock&) = default;
};

// Rows of q that attend to the same tokens of some blocks.
struct PagedTask {
  std::vector<PagedBlock> blocks;
  std::vector<int64_t> rows;
};

// The tasks in the kernel's format: a flat array of integers, copied to the device in one transfer.
struct PagedTable {
  std::vector<int32_t> words;
  int64_t tasks = 0, blocks = 0, parts = 0, rows = 0;  // a part is one row of one task
  int64_t most_rows = 0;                               // maximum per task
};

// `rows`: the rows that get a result, each once; a row without tasks gets out 0 and lse -inf. The
// partial results of a row are merged in the order of its tasks.
PagedTable TableOf(absl::Span<const PagedTask> tasks, absl::Span<const int64_t> rows);

// The maximum number of rows of a task if `queries` query heads share a kv head.
int64_t RowsOfPagedTask(int64_t queries);

// Whether the kernel supports this dtype and these sizes.
bool PagedAttentionTakes(at::ScalarType dtype, int64_t key_dim, int64_t value_dim);

struct PagedAttentionTensors {
  at::Tensor q_THD, keys_NKDB, values_NKBD;
  at::Tensor words;            // PagedTable::words, on the device
  at::Tensor out_THD, lse_TH;  // outputs
};

// The caller must check that the block numbers are in range.
void PagedAttention(const PagedAttentionTensors& tensors, const PagedTable& table, double scale,
                    double softcap);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PAGED_ATTENTION_H_
