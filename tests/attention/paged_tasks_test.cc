#include "attention/paged/paged_tasks.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::attention {
namespace {

using ::testing::ElementsAre;

// The blocks (index, first and last token) that a row attends to, in order.
using SeenBlocks = std::vector<kernels::PagedBlock>;

// Returns the blocks first, first + 1, ... of a sequence of `tokens` tokens.
std::vector<KeyBlock> BlocksOf(int64_t tokens, int64_t first) {
  std::vector<KeyBlock> blocks;
  for (int64_t at = 0; at < tokens; at += kKeyBlock)
    blocks.push_back({first + at / kKeyBlock, at, std::min(kKeyBlock, tokens - at)});
  return blocks;
}

// Returns the blocks of each row's tasks, in order.
std::map<int64_t, std::vector<SeenBlocks>> TasksOfRows(
    const std::vector<kernels::PagedTask>& tasks) {
  std::map<int64_t, std::vector<SeenBlocks>> of_rows;
  for (const kernels::PagedTask& task : tasks)
    for (const int64_t row : task.rows) of_rows[row].push_back(task.blocks);
  return of_rows;
}

TEST(PagedTasksTest, ATokenSeesItsWindow) {
  const KeyBlock block{5, 128, 40};
  const auto seen = [&](int64_t position, int64_t window) {
    const SeenRows rows = Seen(block, position, window);
    return std::make_pair(rows.begin, rows.end);
  };
  EXPECT_EQ(seen(127, 0), std::make_pair(int64_t{0}, int64_t{0}));
  EXPECT_EQ(seen(128, 0), std::make_pair(int64_t{0}, int64_t{1}));
  EXPECT_EQ(seen(500, 0), std::make_pair(int64_t{0}, int64_t{40}));
  EXPECT_EQ(seen(140, 5), std::make_pair(int64_t{8}, int64_t{13}));
  EXPECT_EQ(seen(500, 5), std::make_pair(int64_t{40}, int64_t{40}));
}

// A task has at least four blocks. For longer sequences, the number of blocks per task grows so
// that there are 32 to 64 tasks.
TEST(PagedTasksTest, BlocksOfATask) {
  EXPECT_EQ(BlocksOfPagedTask(0), 4);
  EXPECT_EQ(BlocksOfPagedTask(256), 4);  // 16k tokens
  EXPECT_EQ(BlocksOfPagedTask(257), 8);
  EXPECT_EQ(BlocksOfPagedTask(512), 8);    // 32k
  EXPECT_EQ(BlocksOfPagedTask(2048), 32);  // 128k
  for (int64_t seen = 129; seen < 20000; seen += 7) {
    const int64_t blocks = BlocksOfPagedTask(seen), tasks = (seen + blocks - 1) / blocks;
    EXPECT_LE(tasks, 64) << seen;
    EXPECT_GT(tasks, 32) << seen;
  }
}

TEST(PagedTasksTest, FewRowsOrFewKeysAreDecoded) {
  EXPECT_TRUE(IsDecoded({1, 100000, {}}));
  EXPECT_TRUE(IsDecoded({16, 100000, {}}));
  EXPECT_FALSE(IsDecoded({17, 100000, {}}));
  EXPECT_TRUE(IsDecoded({64, 64, {}}));
  EXPECT_FALSE(IsDecoded({64, 65, {}}));
  EXPECT_FALSE(IsDecoded({512, 0, {}}));
}

// Tasks contain all keys that a row attends to, once and in order, and the tasks of a row do not
// depend on the other rows.
TEST(PagedTasksTest, CoverWhatRowsSee) {
  const auto one = BlocksOf(1003, 0), two = BlocksOf(20000, 100), three = BlocksOf(1, 500),
             four = BlocksOf(600, 600), none = std::vector<KeyBlock>{};
  auto fork = one;  // the second branch of the sequence
  fork.back() = {700, fork.back().first, 5};
  const std::vector<PagedRun> runs = {{1, 1002, one},   {1, 964, fork}, {1, 19999, two},
                                      {500, 100, four}, {1, 0, three},  {12, 988, one},
                                      {2, 40, none}};
  for (const int64_t window : {0, 1, 64, 100, 5000}) {
    for (const int64_t queries : {1, 4, 8, 70}) {
      const auto tasks = PagedTasks(runs, queries, window);
      const auto of_rows = TasksOfRows(tasks);
      for (const kernels::PagedTask& task : tasks) {
        EXPECT_FALSE(task.blocks.empty());
        EXPECT_LE(static_cast<int64_t>(task.rows.size()), kernels::RowsOfPagedTask(queries));
      }
      int64_t row = 0;
      for (const PagedRun& run : runs) {
        for (int64_t r = 0; r < run.rows; ++r, ++row) {
          SeenBlocks wanted, made;
          for (const KeyBlock& block : run.blocks) {
            const SeenRows seen = Seen(block, run.position + r, window);
            if (IsDecoded(run) && seen.begin < seen.end)
              wanted.push_back({block.block, seen.begin, seen.end});
          }
          const auto cut = of_rows.find(row);
          if (cut != of_rows.end()) {
            for (const SeenBlocks& some : cut->second)
              made.insert(made.end(), some.begin(), some.end());
            EXPECT_LE(cut->second.size(), 65u);
            const auto alone =
                TasksOfRows(PagedTasks({{1, run.position + r, run.blocks}}, queries, window));
            EXPECT_EQ(cut->second, alone.at(0)) << row;
          }
          EXPECT_EQ(made, wanted) << row << ", window " << window;
        }
      }
    }
  }
}

// Answers to one prompt share tasks over the prompt's blocks: with four query heads per kv head, a
// task has two answers.
TEST(PagedTasksTest, ShareWhatTheySeeAlike) {
  std::vector<std::vector<KeyBlock>> answers(3, BlocksOf(640, 0));
  for (int64_t a = 0; a < 3; ++a) answers[a].push_back({100 + a, 640, 1});
  std::vector<PagedRun> runs;
  for (const auto& blocks : answers) runs.push_back({1, 640, blocks});
  const auto tasks = PagedTasks(runs, 4, 0);
  std::vector<std::vector<int64_t>> rows;
  for (const kernels::PagedTask& task : tasks) rows.push_back(task.rows);
  // Tasks over blocks 0 to 3, over 4 to 7, and over 8, 9 and the answer's own block.
  EXPECT_THAT(rows, ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(0, 1),
                                ElementsAre(2), ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_EQ(PagedTasks(runs, 8, 0).size(), 9u);
  EXPECT_EQ(PagedTasks(runs, 2, 0).size(), 5u);
}

}  // namespace
}  // namespace moonring::attention
