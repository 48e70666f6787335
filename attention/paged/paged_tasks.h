#ifndef MOONRING_ATTENTION_PAGED_PAGED_TASKS_H_
#define MOONRING_ATTENTION_PAGED_PAGED_TASKS_H_

// Cuts decoding into tasks for a GPU (kernels/paged_attention.h): which tokens of their blocks
// (paged_keys.h) the rows of several sequences attend to.
//
// A sequence's blocks are cut into tasks of n blocks. For each row n is the least power of two, at
// least 4, such that n x 64 blocks cover what it attends to: at most 64 tasks, and one more where a
// window begins inside a task. So a task has enough blocks to be worth its merge, a long sequence
// alone fills a GPU, and the cuts (and thus the last bit of a row's result) depend neither on other
// rows nor on the GPU. Rows that attend to the same tokens of the same blocks, for example answers
// to one prompt, share tasks, up to RowsOfPagedTask rows: such blocks are read once for all of
// them.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "attention/paged/paged_keys.h"
#include "attention/paged/paged_rows.h"
#include "kernels/paged_attention.h"

namespace moonring::attention {

// Rows of q that are the tokens [position, position + rows) of one sequence, and the blocks of its
// keys in ascending order of tokens.
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

// Whether the GPU kernel should compute a run: runs of few rows, as in decoding, or of few keys.
// Long pieces of a prompt are bound by matrix products, which tiles do on tensor cores.
bool IsDecoded(const PagedRun& run);

// The tasks of the runs for which IsDecoded is true; rows are numbered as in q. `queries`: query
// heads per kv head. Tasks are in the order of their positions in the sequences.
std::vector<kernels::PagedTask> PagedTasks(const std::vector<PagedRun>& runs, int64_t queries,
                                           int64_t window);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PAGED_PAGED_TASKS_H_
