#ifndef MOONRING_KERNELS_PAGED_ATTENTION_H_
#define MOONRING_KERNELS_PAGED_ATTENTION_H_

// Attention of some rows over keys that lie in blocks, read where they lie (operator
// moonring::paged_attention); attention/paged_keys.h has how they lie, attention/paged_tasks.h
// which row sees what. Long sequences are cut, and each piece is a task of its own, so that one row
// fills a GPU ("flash decoding", Dao et al. 2023; merged as in Milakov and Gimelshein 2018,
// arXiv:1805.02867):
//
//   a task    m_p = max_s s_ts;  l_p = sum_s e^(s_ts - m_p);  A_p = sum_s e^(s_ts - m_p) v_s
//             for each of its rows t, over the tokens s that it has of its blocks, where
//             s_ts = scale q_t . k_s, or softcap tanh(scale q_t . k_s / softcap)
//   a row     m = max_p m_p;  l = sum_p l_p e^(m_p - m);  out = sum_p A_p e^(m_p - m) / l;
//             lse = m + log l    over the tasks p that have it; of none: out 0, lse -inf
//
// q [T, H, D], keys [N, Hk, D, 64] and values [N, Hk, 64, Dv] in fp32, bf16 or fp16, D and Dv at
// most 256; out [T, H, Dv] and lse [T, H] in fp32, whose other rows stay as they are.
// Sums are in fp32 and of one order: a row's result depends on it, the keys that it sees and how
// they are cut, not on the rows beside it.
//
// A block of threads takes a task, one kv head and up to 8 of its rows' queries: it reads keys and
// values once for all of them. Cost: bytes of a task's keys and values once, once more for each
// further 8 queries of a kv head; 2 (D + Dv) flop a query and key; and of each part 2 x 4 H (Dv +
// 2) bytes.

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

// Rows of q that see the same of some blocks.
struct PagedTask {
  std::vector<PagedBlock> blocks;
  std::vector<int64_t> rows;
};

// Tasks as the kernel reads them: one tensor of words, to be copied to the device at once.
struct PagedTable {
  std::vector<int32_t> words;
  int64_t tasks = 0, blocks = 0, parts = 0, rows = 0;  // parts: a row of a task each
  int64_t most_rows = 0;                               // of a task
};

// `rows`: the rows that get a result, each once; a row without tasks gets out 0 and lse -inf. A
// row's parts are merged in the order of the tasks.
PagedTable TableOf(absl::Span<const PagedTask> tasks, absl::Span<const int64_t> rows);

// How many rows a task may have, where `queries` query heads read a kv head.
int64_t RowsOfPagedTask(int64_t queries);

// Whether the kernel has this dtype and these sizes.
bool PagedAttentionTakes(at::ScalarType dtype, int64_t key_dim, int64_t value_dim);

struct PagedAttentionTensors {
  at::Tensor q_THD, keys_NKDB, values_NKBD;
  at::Tensor words;            // the table's
  at::Tensor out_THD, lse_TH;  // written into
};

// The blocks' numbers are the caller's to check.
void PagedAttention(const PagedAttentionTensors& tensors, const PagedTable& table, double scale,
                    double softcap);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PAGED_ATTENTION_H_
