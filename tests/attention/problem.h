#ifndef MOONRING_TESTS_ATTENTION_PROBLEM_H_
#define MOONRING_TESTS_ATTENTION_PROBLEM_H_

// Attention problems over a whole packed stream, for tests of strategies. They are solved from the
// definition of attention, and by ranks that are threads.
//
// Every head of every token has independent random values, so a row or a head in the wrong position
// makes an error as large as the result.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/attention.h"
#include "attention/kernels/mask.h"
#include "attention/strategy/strategies.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "tests/testing/connected_ranks.h"

namespace moonring::attention {

struct Heads {
  int64_t heads = 4, kv_heads = 2, head_dim = 16;
  int64_t value_dim = 0;  // 0: head_dim
  int64_t of_value() const { return value_dim > 0 ? value_dim : head_dim; }
};

// A problem. Shapes: q [T, H, D], k [T, Hk, D], v [T, Hk, Dv], dout [T, H, Dv]; the scale is 1 /
// sqrt(D).
struct Problem {
  std::vector<int64_t> lengths;
  at::Tensor q, k, v, dout;
  int64_t window = 0;
  double softcap = 0.0;
  std::vector<DocumentMask> mask = {};  // empty: documents are causal and attend only to themselves

  double scale() const;
  LayerMasks masks() const;  // one per layer; empty without a mask
  ScoreRule rule() const { return {scale(), window, softcap}; }
  AttentionShape shape() const;
};

// lse [T, H] is defined only where it was requested.
struct Solution {
  at::Tensor out, dq, dk, dv;
  at::Tensor lse = {};
};

inline constexpr at::Tensor Solution::*kMembers[] = {&Solution::out, &Solution::dq, &Solution::dk,
                                                     &Solution::dv};
inline constexpr const char* kNames[] = {"out", "dq", "dk", "dv"};

inline constexpr at::Tensor Solution::*kMembersAndLse[] = {
    &Solution::out, &Solution::lse, &Solution::dq, &Solution::dk, &Solution::dv};
inline constexpr const char* kNamesAndLse[] = {"out", "lse", "dq", "dk", "dv"};

Problem RandomProblem(std::vector<int64_t> lengths, const Heads& heads, at::ScalarType type,
                      int64_t window = 0, double softcap = 0.0);
Problem InDouble(const Problem& problem);
std::string Said(const Problem& problem);  // a description of its shape

// The reference solution: softmax per document, or under a mask over the whole stream, computed
// with LibTorch's autograd in fp64 whatever the problem's dtype. Also returns lse.
Solution Written(const Problem& problem);

std::shared_ptr<const comm::Layout> MakeLayout(const Attention& attention,
                                               const std::vector<int64_t>& lengths);

// One rank's rows of a solution of the whole stream. For lse: this rank's heads, and the rows of
// all ranks that share its context-parallel index.
Solution RowsOf(const Solution& stream, const comm::Layout& layout, int rank,
                const Problem& problem);

// ErrorOf: the relative error, or the absolute error where the result is close to 0. IsNearZero:
// whether the problem has few rows, or only documents of one token, whose results are small
// differences of terms near 1.
double ErrorOf(const at::Tensor& got, const at::Tensor& want);
bool IsNearZero(const at::Tensor& want);

// Runs this rank's share of a problem forward and backward and returns its rows of the solution.
// With `resumed` the forward runs twice: the second call reuses what the first one kept, and the
// gradients are those of the second call.
Solution Solve(const Attention& attention, const comm::Layout& layout, PlannedAttention& plan,
               int rank, const Problem& problem, bool resumed = false);
Solution Solve(const Attention& attention, int rank, const Problem& problem, bool resumed = false);

// Like Solve, but also returns the lse that the forward saves.
Solution SolveWithLse(PlannedAttention& plan, const comm::Layout& layout, int rank,
                      const Problem& problem);

// Each rank's rows of the solutions of all problems, with lse, computed by one strategy on ranks
// that are threads.
struct Parts {
  std::vector<std::shared_ptr<const comm::Layout>> layouts;  // by problem
  std::vector<std::vector<Solution>> of_rank;                // by rank, by problem
};
Parts SolveParts(testing::ConnectedRanks& ranks, const StrategyOptions& strategy,
                 const std::vector<Problem>& problems,
                 const TileRunners& runners = DeviceTileRunner);

// Returns the whole streams' solutions, joined from all ranks' rows, without lse.
std::vector<Solution> SolveAll(testing::ConnectedRanks& ranks, const StrategyOptions& strategy,
                               const std::vector<Problem>& problems,
                               const TileRunners& runners = DeviceTileRunner);
std::vector<Solution> SolveAll(const StrategyOptions& strategy, int ranks,
                               const std::vector<Problem>& problems,
                               const TileRunners& runners = DeviceTileRunner);

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_PROBLEM_H_
