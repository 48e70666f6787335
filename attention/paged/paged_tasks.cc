#include "attention/paged/paged_tasks.h"

#include <algorithm>
#include <utility>

namespace moonring::attention {
namespace {

constexpr int64_t kMostTasks = 64;  // tasks per row; the merge of a row reads their results one
                                    // after another

// The largest runs that the kernel computes. At these sizes the kernel should be about as fast as
// gathering keys and values (an estimate from the kernel's flops and the gathered bytes on an H100,
// not a measurement).
constexpr int64_t kFewRows = 16, kFewKeys = 2 * kKeyBlock;

// One task, for some rows and the blocks of a sequence from the index number * (blocks per task)
// on.
struct Piece {
  int64_t number = 0;
  kernels::PagedTask task;
};

std::vector<Piece> PiecesOfRow(const PagedRun& run, int64_t position, int64_t window) {
  std::vector<std::pair<int64_t, kernels::PagedBlock>> seen;
  for (size_t b = 0; b < run.blocks.size(); ++b) {
    const SeenRows rows = Seen(run.blocks[b], position, window);
    if (rows.begin < rows.end)
      seen.push_back({static_cast<int64_t>(b), {run.blocks[b].block, rows.begin, rows.end}});
  }
  const int64_t blocks = BlocksOfPagedTask(static_cast<int64_t>(seen.size()));
  std::vector<Piece> pieces;
  for (const auto& [number, block] : seen) {
    if (pieces.empty() || pieces.back().number != number / blocks)
      pieces.push_back({number / blocks, {}});
    pieces.back().task.blocks.push_back(block);
  }
  return pieces;
}

}  // namespace

SeenRows Seen(const KeyBlock& block, int64_t position, int64_t window) {
  const int64_t end = std::clamp<int64_t>(position + 1 - block.first, 0, block.tokens);
  const int64_t begin =
      window == 0 ? 0 : std::clamp<int64_t>(position + 1 - window - block.first, 0, end);
  return {begin, end};
}

int64_t BlocksOfPagedTask(int64_t seen_blocks) {
  int64_t blocks = 4;
  while (blocks * kMostTasks < seen_blocks) blocks *= 2;
  return blocks;
}

bool IsDecoded(const PagedRun& run) {
  return run.rows <= kFewRows || run.position + run.rows <= kFewKeys;
}

std::vector<kernels::PagedTask> PagedTasks(const std::vector<PagedRun>& runs, int64_t queries,
                                           int64_t window) {
  const auto most = static_cast<size_t>(kernels::RowsOfPagedTask(queries));
  std::vector<Piece> all;
  std::vector<size_t> before;  // the pieces of the previous row, as indices into `all`
  int64_t row = 0;
  for (const PagedRun& run : runs) {
    const int64_t first = row;
    row += run.rows;
    if (!IsDecoded(run)) continue;
    for (int64_t r = 0; r < run.rows; ++r) {
      std::vector<size_t> now;
      auto same = before.begin();
      for (Piece& piece : PiecesOfRow(run, run.position + r, window)) {
        while (same != before.end() && all[*same].number < piece.number) ++same;
        const bool joins = same != before.end() && all[*same].task.rows.size() < most &&
                           all[*same].number == piece.number &&
                           all[*same].task.blocks == piece.task.blocks;
        now.push_back(joins ? *same : all.size());
        if (!joins) all.push_back(std::move(piece));
        all[now.back()].task.rows.push_back(first + r);
      }
      before = std::move(now);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Piece& a, const Piece& b) { return a.number < b.number; });
  std::vector<kernels::PagedTask> tasks;
  for (Piece& piece : all) tasks.push_back(std::move(piece.task));
  return tasks;
}

}  // namespace moonring::attention
