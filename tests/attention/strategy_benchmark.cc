#include "tests/attention/strategy_benchmark.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "attention/kernels/tile_plan.h"
#include "attention/strategy/attention_cost.h"
#include "attention/strategy/strategies.h"
#include "base/status/torch_status.h"
#include "comm/layout.h"
#include "comm/process_groups.h"
#include "tests/attention/problem.h"
#include "tests/attention/turns.h"
#include "tests/testing/all_close.h"
#include "tests/testing/allocator_watch.h"
#include "tests/testing/run_ranks.h"

namespace moonring::attention {
namespace {

using testing::AllocatorWatch;
using testing::Megabytes;
using testing::Now;
using testing::Real;
using testing::Scientific;
using testing::Seconds;
using testing::Text;
using testing::Whole;

constexpr Heads kHeads = {8, 4, 64};
// Up to this length the reference is computed from the definition, which allocates several matrices
// of heads x length^2 in fp64.
constexpr int64_t kLongestWritten = 1024;

// ---- predictions of the plan

// The strategy that runs: the named one, or the one that auto chose.
Strategy Resolved(const StrategyOptions& options, int ranks, const std::string& described) {
  if (options.name != "auto" || ranks == 1)
    return *ResolveStrategy(
        {.name = options.name == "auto" ? "dense" : options.name, .shape = options.shape}, ranks);
  for (const Strategy& strategy : CandidatesOfAuto(options, ranks)) {
    if (absl::StartsWith(described,
                         absl::StrCat("auto chose ", DescribeStrategy(strategy), " for ")))
      return strategy;
  }
  TORCH_CHECK(false, "the benchmark does not know the strategy of: ", described);
}

struct Predicted {
  int64_t bytes = 0, steps = 0, peak_bytes = 0;  // of all ranks; steps of the rank with the most
  double balance = 1;
};

Predicted Predict(const Strategy& strategy, const comm::Layout& layout,
                  const AttentionShape& shape) {
  const AttentionCost cost = CostOfAttention(strategy, layout, shape);
  Predicted predicted{.balance = Balance(cost)};
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    predicted.bytes += cost[rank].forward().bytes + cost[rank].backward().bytes;
    predicted.steps =
        std::max(predicted.steps, cost[rank].forward().steps + cost[rank].backward().steps);
    // The results are out, dq, dk and dv.
    const int64_t results = layout.local_tokens(rank) * 2 * (shape.heads + shape.kv_heads) *
                            shape.head_dim * shape.element_bytes;
    predicted.peak_bytes += results + cost[rank].saved_bytes + cost[rank].peak_bytes;
  }
  return predicted;
}

// ---- measurements

struct Measured {
  Seconds cpu, wall;  // of the slowest rank
  int64_t bytes = 0, steps = 0, peak_bytes = 0;
  std::string described;
  Solution solution;
  std::shared_ptr<const comm::Layout> layout;
};

// The times of one rank's forward and backward.
struct RankTurn {
  Seconds cpu, wall;
  comm::Communicator::Counters spent;
};

class OnRanks {
 public:
  OnRanks(StrategyOptions strategy, int ranks, const Problem& problem, const AllocatorWatch& watch,
          double turns_seconds)
      : strategy_(std::move(strategy)),
        ranks_(ranks),
        problem_(problem),
        watch_(watch),
        turns_seconds_(turns_seconds),
        turn_of_rank_(ranks),
        solutions_(ranks) {}

  Measured Run() && {
    testing::RunRanks(
        ranks_,
        [&](std::shared_ptr<comm::World> world) {
          RunRank(*world->communicator(), world->communicator());
        },
        absl::Minutes(10));
    if (measured_.layout == nullptr) return std::move(measured_);  // a failed rank has said so
    const auto join = [&](at::Tensor Solution::*member) {
      std::vector<at::Tensor> locals;
      for (const Solution& solution : solutions_) locals.push_back(solution.*member);
      return measured_.layout->Join(locals);
    };
    measured_.solution = {join(&Solution::out), join(&Solution::dq), join(&Solution::dk),
                          join(&Solution::dv)};
    return std::move(measured_);
  }

 private:
  void RunRank(comm::Communicator& group, const std::shared_ptr<comm::Communicator>& shared) {
    const int rank = group.rank();
    const auto attention = base::ValueOrThrow(CreateAttention({strategy_, shared}));
    const auto layout = MakeLayout(*attention, problem_.lengths);
    const auto plan = base::ValueOrThrow(attention->Plan(layout));
    const auto local = [&](const at::Tensor& stream) { return layout->Cut(stream, rank).clone(); };
    const Problem mine{{},
                       local(problem_.q).requires_grad_(),
                       local(problem_.k).requires_grad_(),
                       local(problem_.v).requires_grad_(),
                       local(problem_.dout)};
    const auto meet = [&] { base::ThrowIfError(group.Barrier()); };
    for (int turn = 0; turn < turns_; ++turn) {
      solutions_[rank] = {};
      meet();
      const int64_t before = watch_.live_bytes();
      meet();
      if (rank == 0) watch_.ResetPeak();
      meet();
      turn_of_rank_[rank] = Turn(group, *plan, mine, solutions_[rank]);
      meet();
      if (rank == 0) EndTurn(turn, before);
      meet();
    }
    if (rank == 0) {
      measured_.described = attention->Describe(problem_.lengths);
      measured_.layout = layout;
    }
  }

  // Measures a forward and a backward, each started on all ranks at the same time.
  RankTurn Turn(comm::Communicator& group, PlannedAttention& plan, const Problem& mine,
                Solution& solution) const {
    RankTurn turn;
    const auto timed = [&](double& cpu, double& wall, const auto& body) {
      base::ThrowIfError(group.Barrier());
      const comm::Communicator::Counters before = group.counters();
      const double cpu_start = Now(CLOCK_THREAD_CPUTIME_ID), wall_start = Now(CLOCK_MONOTONIC);
      body();
      cpu = Now(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
      wall = Now(CLOCK_MONOTONIC) - wall_start;
      turn.spent.steps += group.counters().steps - before.steps;
      turn.spent.bytes_sent += group.counters().bytes_sent - before.bytes_sent;
    };
    at::Tensor out;
    timed(turn.cpu.forward, turn.wall.forward,
          [&] { out = plan.Forward(mine.q, mine.k, mine.v, {mine.scale()}, nullptr); });
    std::vector<at::Tensor> gradients;
    timed(turn.cpu.backward, turn.wall.backward, [&] {
      gradients = torch::autograd::grad({out}, {mine.q, mine.k, mine.v}, {mine.dout});
    });
    solution = {out.detach(), gradients[0], gradients[1], gradients[2]};
    return turn;
  }

  // Ends a measurement. Called on rank 0 while the other ranks wait.
  void EndTurn(int turn, int64_t live_before) {
    measured_.peak_bytes = std::max(measured_.peak_bytes, watch_.peak_bytes() - live_before);
    measured_.bytes = measured_.steps = 0;
    Seconds cpu{0, 0}, wall{0, 0};
    for (const RankTurn& rank : turn_of_rank_) {
      measured_.bytes += rank.spent.bytes_sent;
      measured_.steps = std::max(measured_.steps, rank.spent.steps);
      cpu = {std::max(cpu.forward, rank.cpu.forward), std::max(cpu.backward, rank.cpu.backward)};
      wall = {std::max(wall.forward, rank.wall.forward),
              std::max(wall.backward, rank.wall.backward)};
    }
    measured_.cpu.KeepLeast(cpu);
    measured_.wall.KeepLeast(wall);
    if (turn == 0) turns_ = 1 + std::clamp(static_cast<int>(turns_seconds_ / wall.both()), 0, 5);
  }

  StrategyOptions strategy_;
  int ranks_;
  const Problem& problem_;
  const AllocatorWatch& watch_;
  double turns_seconds_;
  int turns_ = 1;  // set by rank 0, read by the others after a barrier
  std::vector<RankTurn> turn_of_rank_;
  std::vector<Solution> solutions_;
  Measured measured_;
};

// ---- cases

struct Case {
  std::string name;
  std::vector<int64_t> lengths;
};

std::vector<Case> Cases(bool quick) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> tokens(std::log(100.0) - 0.5, 1.0);  // mean 100
  std::vector<int64_t> many(200);
  for (int64_t& length : many) length = std::max<int64_t>(1, std::llround(tokens(random)));
  const Case small = {"1024", {1024}}, pack = {"pack", {3000, 500, 300, 200, 64, 30, 1, 1}},
             docs = {"200-docs", many};
  if (quick) return {small, pack, docs};
  return {small, {"4096", {4096}}, pack, docs, {"16384", {16384}}};
}

// Returns the reference solution in fp64: from the definition, or by dense attention on all
// threads.
Solution Reference(const Problem& problem) {
  if (*std::max_element(problem.lengths.begin(), problem.lengths.end()) <= kLongestWritten)
    return Written(problem);
  const auto dense = *CreateAttention({{.name = "dense"}, comm::Communicator::Alone()});
  return Solve(*dense, 0, InDouble(problem));
}

// The greatest error among out, dq, dk and dv.
double ErrorOf(const Solution& got, const Solution& want) {
  double worst = 0;
  for (const at::Tensor Solution::*member : kMembers) {
    const double error = testing::RelativeErrorOf(got.*member, want.*member);
    if (std::isnan(error)) return error;
    worst = std::max(worst, error);
  }
  return worst;
}

std::vector<std::string> NamesOn(int ranks) {
  if (ranks == 1) return {"dense"};
  if (ranks == 2) return {"ulysses", "ring", "zigzag-ring", "all-gather", "auto"};
  return {"ulysses", "ring", "zigzag-ring", "double-ring", "all-gather", "usp", "auto"};
}

// Runs a case in one dtype with all strategies.
class CaseRunner {
 public:
  CaseRunner(testing::ResultTable& table, const Case& of, at::ScalarType type, double turns_seconds)
      : table_(table),
        case_(of),
        type_name_(type == at::kFloat ? "fp32" : "bf16"),
        type_(type),
        turns_seconds_(turns_seconds) {}

  // `rounded` is the problem in bf16; `want` is its solution, which is computed on first use.
  void Run(const Problem& rounded, Solution& want, const AllocatorWatch& watch) {
    const auto in_type = [&](const at::Tensor& stream) { return stream.to(type_); };
    const Problem problem{rounded.lengths, in_type(rounded.q), in_type(rounded.k),
                          in_type(rounded.v), in_type(rounded.dout)};
    double dense_seconds = 0;
    for (const int ranks : {1, 2, 4}) {
      for (const std::string& name : NamesOn(ranks)) {
        if (!table_.Wants({case_.name, type_name_, absl::StrCat(ranks), name})) continue;
        if (!want.out.defined()) want = Reference(rounded);
        const StrategyOptions strategy{.name = name, .shape = problem.shape()};
        const Measured measured = OnRanks(strategy, ranks, problem, watch, turns_seconds_).Run();
        if (measured.layout == nullptr) continue;
        if (ranks == 1) dense_seconds = measured.cpu.both();
        const Strategy resolved = Resolved(strategy, ranks, measured.described);
        Add(name == "auto" ? absl::StrCat("auto=", resolved.name) : name, ranks, measured,
            Predict(resolved, *measured.layout, problem.shape()), ErrorOf(measured.solution, want),
            dense_seconds / ranks / measured.cpu.both());
      }
    }
  }

 private:
  void Add(const std::string& name, int ranks, const Measured& measured, const Predicted& predicted,
           double error, double efficiency) {
    const auto milliseconds = [](double seconds) { return Real(seconds * 1e3, 1); };
    const double peak = static_cast<double>(measured.peak_bytes);
    table_.Add({Text(case_.name), Text(type_name_), Whole(ranks), Text(name),
                milliseconds(measured.cpu.forward), milliseconds(measured.cpu.backward),
                milliseconds(measured.wall.forward), milliseconds(measured.wall.backward),
                efficiency > 0 ? Real(efficiency, 2) : Text("-"), Megabytes(measured.bytes),
                Megabytes(predicted.bytes), Whole(measured.steps), Whole(predicted.steps),
                Real(predicted.balance, 3), Megabytes(measured.peak_bytes),
                Megabytes(predicted.peak_bytes),
                Real(peak / static_cast<double>(predicted.peak_bytes), 2), Scientific(error)});
  }

  testing::ResultTable& table_;
  const Case& case_;
  std::string type_name_;
  at::ScalarType type_;
  double turns_seconds_;
};

constexpr char kTitle[] =
    "3. Strategies on sp ranks, threads of this process with one intra-op thread each, over "
    "loopback. Heads 8/4x64.\n"
    "cpu     ms of the slowest rank's own thread, forward and backward: without Gloo's threads, "
    "and without what it waits\n"
    "wall    ms of the slowest rank: with more ranks than cores they share these, and it is about "
    "ranks / cores times what it were on cores of their own\n"
    "eff     dense's cpu time / (sp x this one's)\n"
    "sent    MB by all ranks, forward and backward; steps: those of the rank with the most; plan: "
    "what CostOfAttention says of the column before it\n"
    "balance the plan's tile area, greatest over mean\n"
    "peak    MB of tensors of all ranks together above what goes in; its plan: the ranks' own "
    "peaks added, with results and what is saved for the backward\n"
    "error   relative, the worst of out, dq, dk, dv, against fp64: written out where documents are "
    "of 1024 tokens at most, else our dense attention in fp64\n"
    "On 2 ranks double-ring and usp are zigzag-ring.";

}  // namespace

testing::ResultTable MeasureStrategies(const std::string& filter, bool quick) {
  testing::ResultTable table("strategies", filter, kTitle,
                             {{"case", "case", -8},
                              {"type", "type", -4},
                              {"sp", "sp", 2},
                              {"strategy", "strategy", -16},
                              {"cpu fwd", "cpu_forward_ms", 8},
                              {"bwd", "cpu_backward_ms", 8},
                              {"wall fwd", "wall_forward_ms", 8},
                              {"bwd", "wall_backward_ms", 8},
                              {"eff", "efficiency", 5},
                              {"sent", "sent_bytes", 8},
                              {"plan", "plan_sent_bytes", 8},
                              {"steps", "steps", 5},
                              {"plan", "plan_steps", 4},
                              {"balance", "balance", 7},
                              {"peak", "peak_bytes", 8},
                              {"plan", "plan_peak_bytes", 8},
                              {"ratio", "peak_ratio", 5},
                              {"error", "error", 8}});
  const AllocatorWatch watch;
  for (const Case& of : Cases(quick)) {
    const Problem rounded = RandomProblem(of.lengths, kHeads, at::kBFloat16);
    Solution want;
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      if (of.name == "16384" && type == at::kFloat) continue;  // would take minutes
      CaseRunner(table, of, type, quick ? 0.2 : 0.5).Run(rounded, want, watch);
    }
  }
  return table;
}

}  // namespace moonring::attention
