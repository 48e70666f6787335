#ifndef MOONRING_ATTENTION_PAGED_PAGED_TASKS_H_
#define MOONRING_ATTENTION_PAGED_PAGED_TASKS_H_

// Divides attention in decoding into tasks for a GPU kernel (kernels/paged_attention.h). A task is
// some query rows of several sequences and the blocks of keys (paged_keys.h) that they read.
//
// A sequence's blocks are divided into tasks of n blocks each. For each row, n is the least power
// of two, at least 4, such that 64 tasks cover all blocks that the row attends to (one more task
// where a window begins inside a task). So a task has enough blocks to be worth the merge of its
// result, and a single long sequence can occupy a whole GPU. The division depends neither on other
// rows nor on the GPU, and so do the last bits of a row's result. Rows that attend to the same
// tokens of the same blocks, for example rows of several answers to one prompt, share a task, at
// most RowsOfPagedTask rows each: the task reads these blocks once.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "attention/paged/paged_keys.h"
#include "attention/paged/paged_rows.h"
#include "kernels/paged_attention.h"

namespace moonring::attention {

// One sequence's new query rows: its tokens [position, position + rows). `blocks`: all blocks of
// the sequence's keys, in ascending order of tokens.
struct PagedRun {
  int64_t rows = 0;
  int64_t position = 0;
  absl::Span<const KeyBlock> blocks;
};

// The rows of a block that token `position` attends to under a window (0: none).
SeenRows Seen(const KeyBlock& block, int64_t position, int64_t window);

// The number of blocks of a task for a row that attends to `seen_blocks` of them: a power of two,
// at least 4, so that each warp of a CUDA thread block has one.
int64_t BlocksOfPagedTask(int64_t seen_blocks);

// Whether the GPU kernel should compute a run: true for runs of few rows, as in decoding, or of few
// keys. Long pieces of a prompt are bound by matrix products, which the training kernels compute on
// tensor cores.
bool IsDecoded(const PagedRun& run);

// The tasks of the runs for which IsDecoded is true. Tasks refer to rows by their index among the
// rows of all runs. `queries`: query heads per kv head. Tasks are sorted by their position in the
// sequences.
std::vector<kernels::PagedTask> PagedTasks(const std::vector<PagedRun>& runs, int64_t queries,
                                           int64_t window);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_PAGED_TASKS_H_
