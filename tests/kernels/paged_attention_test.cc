#include "kernels/paged_attention.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/fibers.h"
#include "tests/kernels/cases.h"
#include "tests/testing/all_close.h"

namespace moonring::kernels {
namespace {

using ::moonring::testing::BitEqual;
using ::moonring::testing::RelativeError;

constexpr int64_t kBlockTokens = 64, kBlocksOfKeys = 11, kRowsOfQ = 7;

struct PagedCase {
  int64_t heads = 4, kv_heads = 2, dim = 32, value_dim = 32;
  double softcap = 0.0;
};

struct AttendedRows {
  at::Tensor out, lse;
};

// A problem with two rows that share a task and then attend to different blocks, a row with one
// key, a row with none, and a row that belongs to another call. Keys that no task uses are NaN.
class PagedProblem {
 public:
  PagedProblem(at::ScalarType dtype, const PagedCase& of) : case_(of) {
    at::manual_seed(23);
    const auto random = [&](at::IntArrayRef sizes) {
      return at::randn(sizes, at::kDouble).to(dtype);
    };
    q = random({kRowsOfQ, of.heads, of.dim});
    keys = random({kBlocksOfKeys, of.kv_heads, of.dim, kBlockTokens});
    values = random({kBlocksOfKeys, of.kv_heads, kBlockTokens, of.value_dim});
    const int64_t most = RowsOfPagedTask(of.heads / of.kv_heads);
    const std::vector<PagedBlock> begin = {{3, 0, 64}, {9, 0, 64}, {0, 17, 64},
                                           {4, 0, 64}, {6, 0, 64}, {7, 0, 3}};
    if (most > 1) {
      tasks.push_back({begin, {4, 0}});
    } else {
      tasks.push_back({begin, {4}});
      tasks.push_back({begin, {0}});
    }
    tasks.push_back({{{1, 0, 5}}, {0}});
    tasks.push_back({{{2, 0, 64}, {5, 40, 41}}, {4}});
    tasks.push_back({{{8, 62, 63}}, {1}});
    rows = {0, 1, 2, 4, 6};
    tasks.push_back({{{1, 2, 4}}, {6}});
    at::Tensor seen = at::zeros({kBlocksOfKeys, kBlockTokens}, at::kBool);
    for (const PagedTask& task : tasks)
      for (const PagedBlock& b : task.blocks) seen[b.block].slice(0, b.begin, b.end).fill_(true);
    const at::Tensor unseen = seen.logical_not();
    keys.masked_fill_(unseen.view({kBlocksOfKeys, 1, 1, kBlockTokens}), NAN);
    values.masked_fill_(unseen.view({kBlocksOfKeys, 1, kBlockTokens, 1}), NAN);
  }

  // Runs the kernel. Results of rows of other calls are 7 before the call, and those of this call's
  // rows NaN.
  AttendedRows Call(const std::vector<PagedTask>& some, const std::vector<int64_t>& of) const {
    const PagedTable table = TableOf(some, of);
    const AttendedRows made{at::full({kRowsOfQ, case_.heads, case_.value_dim}, 7.0, at::kFloat),
                            at::full({kRowsOfQ, case_.heads}, 7.0, at::kFloat)};
    for (const int64_t row : of) {
      made.out[row].fill_(NAN);
      made.lse[row].fill_(NAN);
    }
    const Poison poison;
    PagedAttention({q, keys, values, at::tensor(table.words, at::kInt), made.out, made.lse}, table,
                   kScale, case_.softcap);
    return made;
  }
  AttendedRows Call() const { return Call(tasks, rows); }

  // Computes the expected result from the definition, in fp64.
  AttendedRows Wanted() const {
    AttendedRows wanted{at::full({kRowsOfQ, case_.heads, case_.value_dim}, 7.0, at::kDouble),
                        at::full({kRowsOfQ, case_.heads}, 7.0, at::kDouble)};
    for (const int64_t row : rows) {
      std::vector<at::Tensor> of_keys, of_values;
      for (const PagedTask& task : tasks) {
        if (std::find(task.rows.begin(), task.rows.end(), row) == task.rows.end()) continue;
        for (const PagedBlock& b : task.blocks) {
          of_keys.push_back(keys[b.block].slice(2, b.begin, b.end).to(at::kDouble));
          of_values.push_back(values[b.block].slice(1, b.begin, b.end).to(at::kDouble));
        }
      }
      wanted.out[row].zero_();
      wanted.lse[row].fill_(-std::numeric_limits<double>::infinity());
      if (of_keys.empty()) continue;
      const int64_t queries = case_.heads / case_.kv_heads;
      const at::Tensor k = at::cat(of_keys, 2).repeat_interleave(queries, 0),
                       v = at::cat(of_values, 1).repeat_interleave(queries, 0);
      at::Tensor scores = at::matmul(q[row].to(at::kDouble).unsqueeze(1), k) * kScale;
      if (case_.softcap > 0) scores = (scores / case_.softcap).tanh() * case_.softcap;
      wanted.out[row].copy_(at::matmul(scores.softmax(2), v).squeeze(1));
      wanted.lse[row].copy_(scores.logsumexp({2}).squeeze(1));
    }
    return wanted;
  }

  at::Tensor q, keys, values;
  std::vector<PagedTask> tasks;
  std::vector<int64_t> rows;

 private:
  static constexpr double kScale = 0.2;
  PagedCase case_;
};

// Bound for sums of hundreds of terms in fp32, with 16-bit inputs.
constexpr double kPagedBound = 1e-6;

void CompareRows(const AttendedRows& made, const AttendedRows& wanted) {
  EXPECT_TRUE(RelativeError(made.out, wanted.out, kPagedBound));
  const at::Tensor none = wanted.lse.isneginf();
  EXPECT_TRUE(BitEqual(made.lse.isneginf(), none));
  EXPECT_TRUE(
      RelativeError(made.lse.masked_fill(none, 0), wanted.lse.masked_fill(none, 0), kPagedBound));
}

TEST(PagedAttentionTest, IsTheDefinition) {
  const std::vector<PagedCase> cases = {
      {},
      {4, 1, 64, 64},
      {8, 1, 128, 128},
      {2, 2, 80, 80},
      {1, 1, 256, 256},
      {2, 1, 192, 128, 3.0},
      {3, 1, 7, 5},
      {5, 1, 33, 131, 1.5},
      {11, 1, 8, 16},  // two thread blocks per kv head
      {6, 6, 1, 1},
  };
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const PagedCase& of : cases) {
      SCOPED_TRACE(::testing::Message()
                   << dtype << ", " << of.heads << " heads over " << of.kv_heads << ", " << of.dim
                   << " and " << of.value_dim);
      const PagedProblem problem(dtype, of);
      CompareRows(problem.Call(), problem.Wanted());
    }
  }
}

TEST(PagedAttentionTest, AnyOrderOfThreads) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const PagedProblem problem(dtype, {.dim = 8, .value_dim = 24});
    const AttendedRows wanted = problem.Call();
    for (const uint64_t seed : kOrders) {
      const fibers::OrderScope order(seed);
      const AttendedRows made = problem.Call();
      EXPECT_TRUE(BitEqual(made.out, wanted.out));
      EXPECT_TRUE(BitEqual(made.lse, wanted.lse));
    }
  }
}

// The result of a row does not depend on the other rows, for any number of queries per thread
// block.
TEST(PagedAttentionTest, ARowDoesNotDependOnWhatIsBesideIt) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t heads : {1, 2, 4}) {
      const PagedProblem problem(dtype,
                                 {.heads = heads, .kv_heads = 1, .dim = 24, .value_dim = 16});
      const AttendedRows all = problem.Call();
      for (const int64_t row : problem.rows) {
        std::vector<PagedTask> own;
        for (const PagedTask& task : problem.tasks) {
          if (std::find(task.rows.begin(), task.rows.end(), row) != task.rows.end())
            own.push_back({task.blocks, {row}});
        }
        const AttendedRows alone = problem.Call(own, {row});
        EXPECT_TRUE(BitEqual(alone.out[row], all.out[row])) << heads << ", " << row;
        EXPECT_TRUE(BitEqual(alone.lse[row], all.lse[row])) << heads << ", " << row;
      }
    }
  }
}

// Tensors that are not aligned to 16 bytes, and rows of q with a large stride, give the same bits.
TEST(PagedAttentionTest, AnyStrides) {
  PagedProblem problem(at::kBFloat16, {.dim = 40, .value_dim = 32});
  const AttendedRows wanted = problem.Call();
  const auto odd = [](const at::Tensor& x) {
    return at::empty({x.numel() + 1}, x.options()).narrow(0, 1, x.numel()).view(x.sizes()).copy_(x);
  };
  problem.keys = odd(problem.keys);
  problem.values = odd(problem.values);
  problem.q = at::cat({problem.q, problem.q}, 2).narrow(2, 0, 40);
  const AttendedRows made = problem.Call();
  EXPECT_TRUE(BitEqual(made.out, wanted.out));
  EXPECT_TRUE(BitEqual(made.lse, wanted.lse));
  problem.q = problem.q.transpose(1, 2).contiguous().transpose(1, 2);
  EXPECT_TRUE(BitEqual(problem.Call().out, wanted.out));
}

// Scores of hundreds of thousands do not overflow, because the maximum is subtracted before any
// exponential.
TEST(PagedAttentionTest, LargeScores) {
  PagedProblem problem(at::kFloat, {});
  problem.q.mul_(1e4);
  CompareRows(problem.Call(), problem.Wanted());
}

// A NaN that a row attends to appears in the result of this row only.
TEST(PagedAttentionTest, NaNComesThrough) {
  for (const bool of_q : {false, true}) {
    PagedProblem problem(at::kFloat, {.heads = 8, .kv_heads = 1});
    const AttendedRows before = problem.Call();
    (of_q ? problem.q[0] : problem.keys[1].select(2, 0)).fill_(NAN);  // only row 0 uses it
    const AttendedRows made = problem.Call();
    EXPECT_TRUE(made.out[0].isnan().all().item<bool>());
    EXPECT_TRUE(made.lse[0].isnan().all().item<bool>());
    EXPECT_TRUE(BitEqual(made.out.slice(0, 1), before.out.slice(0, 1)));
  }
}

TEST(PagedAttentionTest, NoRowsAndNoTasks) {
  const PagedProblem problem(at::kFloat, {});
  EXPECT_TRUE(BitEqual(problem.Call({}, {}).out, at::full({kRowsOfQ, 4, 32}, 7.0, at::kFloat)));
  const AttendedRows made = problem.Call({}, {5});
  EXPECT_TRUE(BitEqual(made.out[5], at::zeros({4, 32}, at::kFloat)));
  EXPECT_TRUE(made.lse[5].isneginf().all().item<bool>());
  EXPECT_TRUE(BitEqual(made.out[4], at::full({4, 32}, 7.0, at::kFloat)));
}

TEST(PagedAttentionTest, RefusesShapesAndDtypes) {
  const auto refuses = [](const auto& change) {
    PagedProblem problem(at::kFloat, {});
    change(problem);
    EXPECT_THROW(problem.Call(), c10::Error);
  };
  refuses([](PagedProblem& p) { p.q = p.q.to(at::kDouble); });
  refuses([](PagedProblem& p) { p.keys = p.keys.to(at::kHalf); });
  refuses([](PagedProblem& p) { p.q = p.q.narrow(2, 0, 8); });
  refuses([](PagedProblem& p) { p.q = p.q.narrow(1, 0, 3); });
  refuses([](PagedProblem& p) { p.values = p.values.transpose(2, 3); });
  refuses([](PagedProblem& p) { p.values = p.values.narrow(0, 0, 3); });
  refuses([](PagedProblem& p) { p.tasks[0].rows = {0, 1, 2, 4, 6}; });  // tasks of two queries each
  refuses([](PagedProblem& p) { p.rows = {0}; });
  EXPECT_FALSE(PagedAttentionTakes(at::kDouble, 64, 64));
  EXPECT_FALSE(PagedAttentionTakes(at::kHalf, 257, 64));
  EXPECT_FALSE(PagedAttentionTakes(at::kHalf, 64, 512));
  EXPECT_TRUE(PagedAttentionTakes(at::kBFloat16, 256, 256));
}

}  // namespace
}  // namespace moonring::kernels
