#ifndef MOONRING_TESTS_ATTENTION_PROBLEM_H_
#define MOONRING_TESTS_ATTENTION_PROBLEM_H_

// Problems over a whole stream for tests of strategies, solved by the definition of attention and
// by ranks as threads.
//
// Every head of every token is random by itself, so a row or a head in the wrong place is an error
// of the size of the result.

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

// q, k [T, H or Hk, D], v, dout [T, Hk or H, Dv]; its scale is 1 / sqrt(D).
struct Problem {
  std::vector<int64_t> lengths;
  at::Tensor q, k, v, dout;
  int64_t window = 0;
  double softcap = 0.0;
  std::vector<DocumentMask> mask = {};  // none: documents are causal and see themselves alone

  double scale() const;
  LayerMasks masks() const;  // of every layer; none where there is no mask
  ScoreRule rule() const { return {scale(), window, softcap}; }
  AttentionShape shape() const;
};

// lse [T, H] only where it was asked for.
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
std::string Said(const Problem& problem);  // its shape, in words

// Softmax by document, or under a mask over the whole stream, through LibTorch's own autograd, in
// fp64 whatever the problem's dtype; lse too.
Solution Written(const Problem& problem);

std::shared_ptr<const comm::Layout> MakeLayout(const Attention& attention,
                                               const std::vector<int64_t>& lengths);

// A rank's rows of a solution of the whole stream. Of lse its heads, and the rows of all ranks of
// its context place.
Solution RowsOf(const Solution& stream, const comm::Layout& layout, int rank,
                const Problem& problem);

// Relative; absolute where the result is near 0: few rows, or rows of documents of one token, are
// differences near 0 of terms near 1.
double ErrorOf(const at::Tensor& got, const at::Tensor& want);
bool IsNearZero(const at::Tensor& want);

// This rank's part of a problem, forward and backward; gives its rows of the solution. With
// `resumed` the forward runs twice, the second time from what the first kept, and the gradients are
// those of the second.
Solution Solve(const Attention& attention, const comm::Layout& layout, PlannedAttention& plan,
               int rank, const Problem& problem, bool resumed = false);
Solution Solve(const Attention& attention, int rank, const Problem& problem, bool resumed = false);

// The same, with the lse that a forward keeps.
Solution SolveWithLse(PlannedAttention& plan, const comm::Layout& layout, int rank,
                      const Problem& problem);

// All problems by a strategy on ranks that are threads, with lse.
struct Parts {
  std::vector<std::shared_ptr<const comm::Layout>> layouts;  // by problem
  std::vector<std::vector<Solution>> of_rank;                // by rank, by problem
};
Parts SolveParts(testing::ConnectedRanks& ranks, const StrategyOptions& strategy,
                 const std::vector<Problem>& problems,
                 const TileRunners& runners = DeviceTileRunner);

// The same, joined, without lse.
std::vector<Solution> SolveAll(testing::ConnectedRanks& ranks, const StrategyOptions& strategy,
                               const std::vector<Problem>& problems,
                               const TileRunners& runners = DeviceTileRunner);
std::vector<Solution> SolveAll(const StrategyOptions& strategy, int ranks,
                               const std::vector<Problem>& problems,
                               const TileRunners& runners = DeviceTileRunner);

}  // namespace moonring::attention

#endif  // MOONRING_TESTS_ATTENTION_PROBLEM_H_
