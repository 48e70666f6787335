#ifndef MOONRING_ATTENTION_PAGED_TASKS_H_
#define MOONRING_ATTENTION_PAGED_TASKS_H_

// Which tokens of their blocks (paged_keys.h) rows of several sequences see, and how these are cut
// into tasks for a GPU (kernels/paged_attention.h).
//
// A sequence's blocks are cut into tasks of n blocks. For each row n is the least power of two, 4
// or more, with n x 64 blocks or more than it sees: at most 64 tasks, and one more where a window
// begins inside a task. So a task has enough blocks to be worth its merge, a long sequence alone
// fills a GPU, and the cuts, and with them the last bit of a row's result, depend neither on the
// rows beside it nor on the GPU. Rows that see the same tokens of the same blocks, as answers to
// one prompt do, share tasks, up to RowsOfPagedTask: such blocks are read once for all of them.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "attention/paged_keys.h"
#include "attention/paged_rows.h"
#include "kernels/paged_attention.h"

namespace moonring::attention {

// Rows of q that are tokens [position, position + rows) of one sequence, and where its keys are, by
// rising tokens.
struct PagedRun {
  int64_t rows = 0;
  int64_t position = 0;
  absl::Span<const KeyBlock> blocks;
};

// What token `position` sees of a block under a window (0: none).
SeenRows Seen(const KeyBlock& block, int64_t position, int64_t window);

// How many blocks a task has, of a row that sees `seen_blocks` of them: a power of two, at least 4,
// so that each warp of a block of threads has one.
int64_t BlocksOfPagedTask(int64_t seen_blocks);

// Whether the kernel is to take a run: one of few rows, as in decoding, or of few keys. A piece of
// a long prompt is bound by its products, which tiles do on tensor cores.
bool IsDecoded(const PagedRun& run);

// The tasks of the runs that IsDecoded names; rows are numbered as in q. `queries`: query heads
// that read a kv head. Tasks are in the order of their places in the sequences.
std::vector<kernels::PagedTask> PagedTasks(const std::vector<PagedRun>& runs, int64_t queries,
                                           int64_t window);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_TASKS_H_
