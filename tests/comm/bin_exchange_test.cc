#include "comm/bin_exchange.h"

#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "base/autograd/custom_function.h"
#include "tests/testing/all_close.h"
#include "tests/testing/run_ranks.h"

namespace moonring::comm {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RunRanks;

using Counts = std::vector<std::vector<int64_t>>;  // [P][E]

constexpr int64_t kColumns = 3;

// Row i of a bin on a rank has values that identify the rank, the bin and i, exact in fp64.
at::Tensor RowsOf(int rank, int64_t bin, int64_t rows) {
  return (at::arange(rows, at::kDouble) * 1000 + rank * 100 + bin * 10).unsqueeze(1) +
         at::arange(kColumns, at::kDouble);
}

struct Case {
  const char* name;
  Counts rows;
  std::vector<int64_t> border;
};

std::vector<Case> Cases() {
  return {{"alone", {{2, 0, 3}}, {0, 3}},
          {"two", {{2, 0, 3}, {1, 4, 0}}, {0, 2, 3}},
          {"one without rows", {{2, 1, 3}, {0, 0, 0}, {1, 1, 5}}, {0, 1, 2, 3}},
          {"one without bins", {{2, 1}, {3, 0}, {1, 1}}, {0, 1, 1, 2}},
          {"more ranks than bins", {{2, 1, 1}, {3, 0, 7}, {1, 1, 0}, {0, 0, 9}}, BinParts(3, 4)},
          {"all to one", {{0, 9, 0, 0}, {0, 7, 0, 0}, {0, 1, 0, 0}}, BinParts(4, 3)},
          {"no rows", {{0, 0, 0}, {0, 0, 0}}, BinParts(3, 2)}};
}

TEST(BinExchangeTest, Parts) {
  EXPECT_EQ(BinParts(8, 2), (std::vector<int64_t>{0, 4, 8}));
  EXPECT_EQ(BinParts(7, 3), (std::vector<int64_t>{0, 3, 5, 7}));
  EXPECT_EQ(BinParts(2, 4), (std::vector<int64_t>{0, 1, 2, 2, 2}));
}

TEST(BinExchangeTest, RowsComeByBinThenByRank) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const int ranks = static_cast<int>(c.rows.size());
    RunRanks(ranks, [&](std::shared_ptr<World> world) {
      const std::shared_ptr<Communicator> group = world->communicator();
      const int rank = group->rank();
      std::vector<int64_t> begin = {0};
      base::Tensors mine, wanted = {at::empty({0, kColumns}, at::kDouble)};
      for (size_t e = 0; e < c.rows[rank].size(); ++e) {
        mine.push_back(RowsOf(rank, static_cast<int64_t>(e), c.rows[rank][e]));
        begin.push_back(begin.back() + c.rows[rank][e]);
      }
      std::vector<int64_t> wanted_begin = {0};
      for (int64_t e = c.border[rank]; e < c.border[rank + 1]; ++e) {
        wanted_begin.push_back(wanted_begin.back());
        for (int from = 0; from < ranks; ++from) {
          wanted.push_back(RowsOf(from, e, c.rows[from][e]));
          wanted_begin.back() += c.rows[from][e];
        }
      }
      const BinExchange exchange(group, c.border);
      EXPECT_EQ(exchange.count(), c.border[rank + 1] - c.border[rank]);
      const at::Tensor rows = at::cat(mine).requires_grad_();
      const auto before = group->counters();
      const auto meeting = exchange.Meet(begin, rows.device());
      const at::Tensor there = ToBins(rows, meeting);
      const at::Tensor back = FromBins(there * 2, meeting);
      const auto after = group->counters();
      EXPECT_EQ(meeting.begin, wanted_begin);
      EXPECT_TRUE(BitEqual(there.detach(), at::cat(wanted)));
      EXPECT_TRUE(BitEqual(back.detach(), rows.detach() * 2));
      const int64_t row_bytes = kColumns * 8;
      const BinTraffic forward = CountBinTraffic(c.rows, c.border, rank, row_bytes, true),
                       backward = CountBinTraffic(c.rows, c.border, rank, row_bytes, false);
      EXPECT_EQ(after.steps - before.steps, forward.steps);
      EXPECT_EQ(after.bytes_sent - before.bytes_sent, forward.bytes);
      // The gradient is exchanged back along the same path, doubled like the rows.
      const at::Tensor dy = rows.detach() + 0.5;
      EXPECT_TRUE(BitEqual(base::Differentiate({back}, {rows}, {dy})[0], dy * 2));
      const auto last = group->counters();
      EXPECT_EQ(last.steps - after.steps, backward.steps);
      EXPECT_EQ(last.bytes_sent - after.bytes_sent, backward.bytes);
      EXPECT_TRUE(
          BitEqual(base::Differentiate({ToBins(rows, meeting)}, {rows}, {at::cat(wanted) - 1})[0],
                   rows.detach() - 1));
    });
  }
}

TEST(BinExchangeTest, RefusesWhatDoesNotFit) {
  const auto alone = Communicator::Alone();
  EXPECT_THROW(BinExchange(alone, {0, 2, 4}), c10::Error);
  EXPECT_THROW(BinExchange(alone, {1, 2}), c10::Error);
  EXPECT_THROW(BinExchange(alone, {0, -1}), c10::Error);
  const BinExchange exchange(alone, {0, 2});
  EXPECT_THROW(exchange.Meet({0, 2}, at::kCPU), c10::Error);
  EXPECT_THROW(ToBins(at::ones({3, 1}), exchange.Meet({0, 1, 2}, at::kCPU)), c10::Error);
}

}  // namespace
}  // namespace moonring::comm
