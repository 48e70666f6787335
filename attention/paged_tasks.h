#ifndef MOONRING_ATTENTION_PAGED_TASKS_H_
#define MOONRING_ATTENTION_PAGED_TASKS_H_

// What rows of several sequences see of their blocks (paged_keys.h), and how that is cut into tasks
// for a GPU (comm/kernels/paged_attention.h).
//
// A row's blocks are cut at every n-th of its sequence, where n depends on how many of them it sees
// alone: into 64 tasks at most, a few more than half of that or more where they are long. So a task
// has enough blocks to be worth its merge, a long sequence alone fills a GPU, and how a row is cut,
// and with it the last bit of its result, depends neither on the rows beside it nor on the GPU.
// Rows that see the same of the same blocks, as answers to one prompt do, share tasks, as many as a
// task takes: such blocks are read once for all of them.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "attention/paged_keys.h"
#include "attention/paged_rows.h"
#include "comm/kernels/paged_attention.h"

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

// How many blocks a task of a row has that sees so many: a power of two, at least 4, so that each
// warp of a block of threads has one.
int64_t BlocksOfPagedTask(int64_t seen_blocks);

// Whether the kernel is to take a run: one of few rows, as in decoding, or of few keys. A piece of
// a long prompt is bound by its products, which tiles do on tensor cores.
bool IsDecoded(const PagedRun& run);

// Of the runs that are decoded; row numbers are those of q. `queries`: heads of q that read a kv
// head. Tasks of the same blocks stand together.
std::vector<kernels::PagedTask> PagedTasks(const std::vector<PagedRun>& runs, int64_t queries,
                                           int64_t window);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_TASKS_H_
