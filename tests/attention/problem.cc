#include "tests/attention/problem.h"

#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "attention/tile_plan.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/status_matchers.h"

namespace moonring::attention {

double Problem::scale() const { return 1.0 / std::sqrt(static_cast<double>(q.size(2))); }

AttentionShape Problem::shape() const {
  return {q.size(1), k.size(1), q.size(2), window, static_cast<int64_t>(q.element_size()), q.scalar_type() == at::kDouble ? 8 : 4};
}

Problem RandomProblem(std::vector<int64_t> lengths, const Heads& heads, at::ScalarType type, int64_t window) {
  const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const auto random = [&](int64_t of) { return at::randn({tokens, of, heads.head_dim}, at::kDouble).to(type); };
  return {std::move(lengths), random(heads.heads), random(heads.kv_heads), random(heads.kv_heads), random(heads.heads), window};
}

Problem InDouble(const Problem& problem) {
  return {problem.lengths, problem.q.to(at::kDouble), problem.k.to(at::kDouble), problem.v.to(at::kDouble), problem.dout.to(at::kDouble), problem.window};
}

Solution Written(const Problem& given) {
  const Problem problem = InDouble(given);
  const at::Tensor q = problem.q.detach().requires_grad_(), k = problem.k.detach().requires_grad_(), v = problem.v.detach().requires_grad_();
  const int64_t group = q.size(1) / k.size(1);
  std::vector<at::Tensor> outs;
  int64_t offset = 0;
  for (const int64_t length : problem.lengths) {
    const auto by_head = [&](const at::Tensor& rows, int64_t repeats) { return rows.narrow(0, offset, length).repeat_interleave(repeats, 1).transpose(0, 1); };
    const at::Tensor all = at::ones({length, length}, at::kBool);
    at::Tensor hidden = all.triu(1);
    if (problem.window > 0) hidden = hidden.logical_or(all.tril(-problem.window));
    const at::Tensor scores = at::matmul(by_head(q, 1), by_head(k, group).transpose(1, 2)).mul(problem.scale()).masked_fill(hidden, -INFINITY);
    outs.push_back(at::matmul(scores.softmax(2), by_head(v, group)).transpose(0, 1));
    offset += length;
  }
  const at::Tensor out = outs.empty() ? at::zeros_like(q) + 0 * q : at::cat(outs);
  const auto gradients = torch::autograd::grad({out}, {q, k, v}, {problem.dout}, {}, false, /*allow_unused=*/true);
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

std::shared_ptr<const comm::Layout> MakeLayout(const Attention& attention, const std::vector<int64_t>& lengths) {
  auto layout = comm::Layout::Create(lengths, attention.Divide(lengths), CausalTileArea);
  EXPECT_OK(layout);
  return *layout;
}

Solution Solve(const Attention& attention, const comm::Layout& layout, PlannedAttention& plan, int rank, const Problem& problem, bool resumed) {
  const auto leaf = [&](const at::Tensor& stream) { return layout.Cut(stream, rank).clone().requires_grad_(); };
  const at::Tensor q = leaf(problem.q), k = leaf(problem.k), v = leaf(problem.v);
  KeptAttention kept;
  const ScoreRule rule{problem.scale(), problem.window};
  if (resumed) {
    at::NoGradGuard no_grad;
    plan.Forward(q, k, v, rule, &kept);
  }
  const at::Tensor out = plan.Forward(q, k, v, rule, resumed ? &kept : nullptr);
  const auto gradients = torch::autograd::grad({out}, {q, k, v}, {layout.Cut(problem.dout, rank)});
  return {out.detach(), gradients[0], gradients[1], gradients[2]};
}

Solution Solve(const Attention& attention, int rank, const Problem& problem, bool resumed) {
  const auto layout = MakeLayout(attention, problem.lengths);
  auto plan = attention.Plan(layout);
  EXPECT_OK(plan);
  return Solve(attention, *layout, **plan, rank, problem, resumed);
}

std::vector<Solution> SolveAll(const StrategyOptions& strategy, int ranks, const std::vector<Problem>& problems, TileRunners runners) {
  std::vector<std::vector<Solution>> of_rank(ranks, std::vector<Solution>(problems.size()));
  std::vector<std::shared_ptr<const comm::Layout>> layouts(problems.size());
  testing::RunRanks(ranks, [&](std::shared_ptr<comm::World> world) {
    auto attention = CreateAttention({strategy, world->communicator(), runners});
    ASSERT_OK(attention);
    for (size_t i = 0; i < problems.size(); ++i) {
      of_rank[world->rank()][i] = Solve(**attention, world->rank(), problems[i]);
      if (world->rank() == 0) layouts[i] = MakeLayout(**attention, problems[i].lengths);
    }
  });
  std::vector<Solution> solutions;
  for (size_t i = 0; i < problems.size(); ++i) {
    const auto join = [&](at::Tensor Solution::*member) {
      std::vector<at::Tensor> locals;
      for (const std::vector<Solution>& rank : of_rank) locals.push_back(rank[i].*member);
      return layouts[i]->Join(locals);
    };
    solutions.push_back({join(&Solution::out), join(&Solution::dq), join(&Solution::dk), join(&Solution::dv)});
  }
  return solutions;
}

}  // namespace moonring::attention
