#include "tests/attention/problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/kernels/head_split.h"
#include "attention/kernels/tile_plan.h"
#include "base/autograd/custom_function.h"
#include "tests/testing/all_close.h"
#include "tests/testing/masked_attention.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {

double Problem::scale() const { return 1.0 / std::sqrt(static_cast<double>(q.size(2))); }

LayerMasks Problem::masks() const {
  if (mask.empty()) return {};
  auto made = Mask::Create(lengths, mask);
  EXPECT_OK(made);
  return {*made};
}

AttentionShape Problem::shape() const {
  return {q.size(1),
          k.size(1),
          q.size(2),
          window,
          static_cast<int64_t>(q.element_size()),
          q.scalar_type() == at::kDouble ? 8 : 4,
          /*upcasts=*/true,
          v.size(2)};
}

Problem RandomProblem(std::vector<int64_t> lengths, const Heads& heads, at::ScalarType type,
                      int64_t window, double softcap) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const auto random = [&](int64_t of, int64_t head_dim) {
    return at::randn({tokens, of, head_dim}, at::kDouble).to(type);
  };
  return {std::move(lengths),
          random(heads.heads, heads.head_dim),
          random(heads.kv_heads, heads.head_dim),
          random(heads.kv_heads, heads.of_value()),
          random(heads.heads, heads.of_value()),
          window,
          softcap};
}

std::string Said(const Problem& problem) {
  std::string said =
      "heads " + std::to_string(problem.q.size(1)) + "/" + std::to_string(problem.k.size(1)) + "x" +
      std::to_string(problem.q.size(2)) +
      (problem.v.size(2) != problem.q.size(2) ? "|" + std::to_string(problem.v.size(2)) : "") +
      " window " + std::to_string(problem.window) +
      (problem.softcap > 0 ? " softcap " + std::to_string(problem.softcap) : "") + " lengths";
  for (const int64_t length : problem.lengths) said += " " + std::to_string(length);
  for (size_t d = 0; d < problem.mask.size(); ++d) {
    const auto& [prefix, parent, tokens] = problem.mask[d];
    said += c10::str(d == 0 ? " mask" : ",", " ", prefix);
    if (parent >= 0) said += c10::str(" of ", parent, ":", tokens);
  }
  return said;
}

Problem InDouble(const Problem& problem) {
  return {problem.lengths,
          problem.q.to(at::kDouble),
          problem.k.to(at::kDouble),
          problem.v.to(at::kDouble),
          problem.dout.to(at::kDouble),
          problem.window,
          problem.softcap,
          problem.mask};
}

namespace {

// Solves a problem with a mask, one kv head at a time with the whole score matrix. For short
// streams.
Solution WrittenUnderMask(const Problem& problem) {
  const at::Tensor q = problem.q.detach().requires_grad_(), k = problem.k.detach().requires_grad_(),
                   v = problem.v.detach().requires_grad_();
  const at::Tensor hidden = testing::HiddenPairs(problem.lengths, problem.mask, problem.window);
  const int64_t group = q.size(1) / k.size(1);
  std::vector<at::Tensor> outs, lses;
  for (int64_t head = 0; head < k.size(1); ++head) {
    const at::Tensor q_HTD = q.narrow(1, head * group, group).transpose(0, 1);
    at::Tensor scores = at::matmul(q_HTD, k.select(1, head).t()).mul(problem.scale());
    if (problem.softcap > 0) scores = (scores / problem.softcap).tanh() * problem.softcap;
    scores = scores.masked_fill(hidden, -INFINITY);
    outs.push_back(at::matmul(scores.softmax(2), v.select(1, head)).transpose(0, 1));
    lses.push_back(scores.detach().logsumexp(2).transpose(0, 1));
  }
  const at::Tensor out = at::cat(outs, 1);
  const auto gradients = torch::autograd::grad({out}, {q, k, v}, {problem.dout});
  return {out.detach(), gradients[0], gradients[1], gradients[2], at::cat(lses, 1)};
}

}  // namespace

Solution Written(const Problem& given) {
  const Problem problem = InDouble(given);
  if (!problem.mask.empty()) return WrittenUnderMask(problem);
  const at::Tensor q = problem.q.detach().requires_grad_(), k = problem.k.detach().requires_grad_(),
                   v = problem.v.detach().requires_grad_();
  const int64_t group = q.size(1) / k.size(1);
  constexpr int64_t kRows = 256;
  std::vector<at::Tensor> outs, lses;
  int64_t offset = 0;
  for (const int64_t length : problem.lengths) {
    // One kv head and some queries at a time: larger score matrices would be mapped and unmapped by
    // the allocator in each step.
    for (int64_t begin = 0; begin < length; begin += kRows) {
      const int64_t end = std::min(length, begin + kRows);
      const at::Tensor all = at::ones({end - begin, end}, at::kBool);
      at::Tensor hidden = all.triu(begin + 1);
      if (problem.window > 0) hidden = hidden.logical_or(all.tril(begin - problem.window));
      std::vector<at::Tensor> out_of_head, lse_of_head;
      for (int64_t head = 0; head < k.size(1); ++head) {
        const auto by_head = [&](const at::Tensor& rows, int64_t from, int64_t to, int64_t first,
                                 int64_t heads) {
          return rows.narrow(0, offset + from, to - from).narrow(1, first, heads).transpose(0, 1);
        };
        const at::Tensor q_HTD = by_head(q, begin, end, head * group, group),
                         k_HSD = by_head(k, 0, end, head, 1), v_HSD = by_head(v, 0, end, head, 1);
        at::Tensor scores = at::matmul(q_HTD, k_HSD.transpose(1, 2)).mul(problem.scale());
        if (problem.softcap > 0) scores = (scores / problem.softcap).tanh() * problem.softcap;
        scores = scores.masked_fill(hidden, -INFINITY);
        out_of_head.push_back(at::matmul(scores.softmax(2), v_HSD).transpose(0, 1));
        lse_of_head.push_back(scores.detach().logsumexp(2).transpose(0, 1));
      }
      outs.push_back(at::cat(out_of_head, 1));
      lses.push_back(at::cat(lse_of_head, 1));
    }
    offset += length;
  }
  const at::Tensor out = outs.empty() ? at::zeros_like(problem.dout) + 0 * q.sum() : at::cat(outs),
                   lse = lses.empty() ? at::zeros({0, q.size(1)}, at::kDouble) : at::cat(lses);
  const auto gradients =
      torch::autograd::grad({out}, {q, k, v}, {problem.dout}, {}, false, /*allow_unused=*/true);
  return {out.detach(), gradients[0], gradients[1], gradients[2], lse};
}

std::shared_ptr<const comm::Layout> MakeLayout(const Attention& attention,
                                               const std::vector<int64_t>& lengths) {
  auto layout = comm::Layout::Create(lengths, attention.Divide(lengths), CausalTileArea);
  EXPECT_OK(layout);
  return *layout;
}

Solution RowsOf(const Solution& stream, const comm::Layout& layout, int rank,
                const Problem& problem) {
  Solution rows;
  for (const auto member : kMembers) rows.*member = layout.Cut(stream.*member, rank);
  const comm::Division& division = layout.division();
  const HeadRange heads =
      SplitHeads(problem.q.size(1), problem.k.size(1), division.heads)[division.HeadOf(rank)]
          .queries;
  std::vector<at::Tensor> of_place;
  for (int place = 0; place < division.heads; ++place) {
    of_place.push_back(layout.Cut(stream.lse, division.Rank(division.ContextOf(rank), place)));
  }
  rows.lse = at::cat(of_place).narrow(1, heads.begin, heads.heads());
  return rows;
}

bool IsNearZero(const at::Tensor& want) {
  return want.numel() == 0 || want.size(0) <= 3 || want.abs().max().item<double>() < 1e-6;
}

double ErrorOf(const at::Tensor& got, const at::Tensor& want) {
  if (got.sizes() != want.sizes()) return INFINITY;
  if (want.numel() == 0) return 0;
  return IsNearZero(want) ? (got - want).abs().max().item<double>()
                          : testing::RelativeErrorOf(got, want);
}

Solution SolveWithLse(PlannedAttention& plan, const comm::Layout& layout, int rank,
                      const Problem& problem) {
  const auto leaf = [&](const at::Tensor& stream) {
    return layout.Cut(stream, rank).clone().requires_grad_();
  };
  const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v);
  KeptAttention kept;
  const at::Tensor out = plan.Forward(q, k, v, problem.rule(), &kept);
  // Ranks may be threads that share a device. LibTorch has one autograd thread per device; if it
  // waited in one rank's exchange, it could not run the other rank's.
  const auto gradients = base::Differentiate({out}, {q, k, v}, {layout.Cut(problem.dout, rank)});
  return {out.detach(), gradients[0], gradients[1], gradients[2], kept.tensors().at(1)};
}

Solution Solve(const Attention& attention, const comm::Layout& layout, PlannedAttention& plan,
               int rank, const Problem& problem, bool resumed) {
  const auto leaf = [&](const at::Tensor& stream) {
    return layout.Cut(stream, rank).clone().requires_grad_();
  };
  const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v);
  KeptAttention kept;
  const ScoreRule rule = problem.rule();
  if (resumed) {
    at::NoGradGuard no_grad;
    plan.Forward(q, k, v, rule, &kept);
  }
  const at::Tensor out = plan.Forward(q, k, v, rule, resumed ? &kept : nullptr);
  const auto gradients = base::Differentiate({out}, {q, k, v}, {layout.Cut(problem.dout, rank)});
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

Solution Solve(const Attention& attention, int rank, const Problem& problem, bool resumed) {
  const auto layout = MakeLayout(attention, problem.lengths);
  auto plan = attention.Plan(layout, problem.masks());
  EXPECT_OK(plan);
  return Solve(attention, *layout, **plan, rank, problem, resumed);
}

Parts SolveParts(testing::ConnectedRanks& ranks, const StrategyOptions& strategy,
                 const std::vector<Problem>& problems, const TileRunners& runners) {
  Parts parts{
      std::vector<std::shared_ptr<const comm::Layout>>(problems.size()),
      std::vector<std::vector<Solution>>(ranks.size(), std::vector<Solution>(problems.size()))};
  ranks.Run([&](std::shared_ptr<comm::World> world) {
    auto attention = CreateAttention({strategy, world->communicator(), runners});
    ASSERT_OK(attention);
    for (size_t i = 0; i < problems.size(); ++i) {
      const auto layout = MakeLayout(**attention, problems[i].lengths);
      const auto plan = (*attention)->Plan(layout, problems[i].masks());
      ASSERT_OK(plan);
      parts.of_rank[world->rank()][i] = SolveWithLse(**plan, *layout, world->rank(), problems[i]);
      if (world->rank() == 0) parts.layouts[i] = layout;
    }
  });
  return parts;
}

std::vector<Solution> SolveAll(testing::ConnectedRanks& ranks, const StrategyOptions& strategy,
                               const std::vector<Problem>& problems, const TileRunners& runners) {
  const Parts parts = SolveParts(ranks, strategy, problems, runners);
  std::vector<Solution> solutions;
  for (size_t i = 0; i < problems.size(); ++i) {
    const auto join = [&](at::Tensor Solution::*member) {
      std::vector<at::Tensor> locals;
      for (const std::vector<Solution>& rank : parts.of_rank) locals.push_back(rank[i].*member);
      return parts.layouts[i]->Join(locals);
    };
    solutions.push_back(
        {join(&Solution::out), join(&Solution::dq), join(&Solution::dk), join(&Solution::dv)});
  }
  return solutions;
}

std::vector<Solution> SolveAll(const StrategyOptions& strategy, int ranks,
                               const std::vector<Problem>& problems, const TileRunners& runners) {
  testing::ConnectedRanks connected(ranks);
  return SolveAll(connected, strategy, problems, runners);
}

}  // namespace moonring::attention
