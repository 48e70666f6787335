#include "attention/strategy/strategies.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "attention/strategy/gather_plan.h"
#include "attention/strategy/ring_plan.h"

namespace moonring::attention {
namespace {

using comm::Ownership;

// The largest divisor of `ranks` up to its square root.
int DivisorNearRoot(int ranks) {
  int divisor = 1;
  for (int d = 1; d * d <= ranks; ++d) {
    if (ranks % d == 0) divisor = d;
  }
  return divisor;
}

// All ranks are on the context axis.
template <typename Transport, Ownership kOwnership>
absl::StatusOr<Strategy> OverContexts(const StrategyOptions&, int ranks) {
  return Strategy{.division = {ranks, kOwnership}, .transport = std::make_shared<Transport>()};
}

absl::StatusOr<Strategy> ResolveUsp(const StrategyOptions& options, int ranks) {
  int heads = options.ulysses_degree, contexts = options.ring_degree;
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("usp: sequence_parallel_ulysses_degree ", options.ulysses_degree,
                     " x sequence_parallel_ring_degree ", options.ring_degree,
                     ", expected a product of ", ranks, " (0: chosen)"));
  };
  if (heads < 0 || contexts < 0) return wrong();
  if (heads == 0 && contexts == 0) {
    heads = DivisorNearRoot(ranks);
    for (int d = heads; d < ranks; ++d) {
      if (ranks % d == 0 && options.shape.kv_heads > 0 && options.shape.kv_heads % d == 0)
        heads = d;
    }
  }
  if (heads == 0) heads = ranks / contexts;
  if (contexts == 0) contexts = ranks / heads;
  if (heads * contexts != ranks) return wrong();
  return Strategy{.division = {contexts, Ownership::kZigzag, heads, options.placement},
                  .transport = std::make_shared<RingTransport>()};
}

absl::StatusOr<Strategy> ResolveDoubleRing(const StrategyOptions& options, int ranks) {
  int window = options.double_ring_window;
  if (window < 0 || (window > 0 && ranks % window != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("double-ring: double_ring_window ", window,
                                                   " does not divide ", ranks, " ranks"));
  }
  if (window == 0) {
    const int machine = options.ranks_per_machine;
    window = machine > 1 && machine < ranks && ranks % machine == 0
                 ? machine
                 : ranks / DivisorNearRoot(ranks);
  }
  return Strategy{.division = {ranks, Ownership::kZigzag},
                  .transport = std::make_shared<RingTransport>(window)};
}

absl::StatusOr<Strategy> ResolveUlysses(const StrategyOptions&, int ranks) {
  return Strategy{.division = {1, Ownership::kContiguous, ranks},
                  .transport = std::make_shared<RingTransport>()};
}

Strategy Dense() {
  return {.name = "dense", .division = {1}, .transport = std::make_shared<RingTransport>()};
}

absl::StatusOr<Strategy> ResolveDense(const StrategyOptions&, int ranks) {
  if (ranks == 1) return Dense();
  return absl::InvalidArgumentError(
      absl::StrCat("dense attention works on one rank, the group has ", ranks));
}

absl::StatusOr<Strategy> ResolveAuto(const StrategyOptions&, int) {
  return absl::InvalidArgumentError("auto is no single strategy");
}

struct Row {
  absl::string_view name;
  absl::StatusOr<Strategy> (*resolve)(const StrategyOptions& options, int ranks);  // without name
  absl::string_view alias_of = name;
};

// Strategies in the order in which help lists them.
constexpr Row kRows[] = {
    // Keys are sent step by step; work is balanced (ring_plan.h).
    {"zigzag-ring", &OverContexts<RingTransport, Ownership::kZigzag>},
    // Keys are sent step by step; contiguous runs of tokens, so later ranks work more.
    {"ring", &OverContexts<RingTransport, Ownership::kContiguous>},
    // Heads are split over the ranks (head_exchange.h).
    {"ulysses", &ResolveUlysses},
    // All keys are gathered before the computation (gather_plan.h).
    {"all-gather", &OverContexts<GatherTransport, Ownership::kZigzag>},
    {"llama3", &OverContexts<GatherTransport, Ownership::kZigzag>, "all-gather"},
    // ulysses and zigzag-ring combined (hybrid_attention.h).
    {"usp", &ResolveUsp},
    // zigzag-ring in windows of ranks (ring_plan.h).
    {"double-ring", &ResolveDoubleRing},
    // One of the strategies for each micro-batch (CandidatesOfAuto, auto_attention.h).
    {"auto", &ResolveAuto},
    // One rank.
    {"dense", &ResolveDense},
};

absl::StatusOr<std::unique_ptr<Attention>> CreateAuto(const AttentionOptions& options) {
  const AttentionShape& shape = options.strategy.shape;
  if (shape.heads <= 0 || shape.kv_heads <= 0 || shape.head_dim <= 0) {
    return absl::InvalidArgumentError(
        "attention: \"auto\" chooses by the model's heads, which were not given");
  }
  std::vector<std::unique_ptr<HybridAttention>> candidates;
  for (Strategy& strategy : CandidatesOfAuto(options.strategy, options.group->size())) {
    candidates.push_back(
        std::make_unique<HybridAttention>(std::move(strategy), options.group, options.runners));
  }
  return std::make_unique<AutoAttention>(shape, options.machine, options.strategy.ranks_per_machine,
                                         std::move(candidates));
}

}  // namespace

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<Strategy> ResolveStrategy(const StrategyOptions& options, int ranks) {
  const Row* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                      [&](const Row& each) { return each.name == options.name; });
  if (row == std::end(kRows)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown attention \"", options.name,
                                                   "\"; known are ",
                                                   absl::StrJoin(StrategyNames(), ", ")));
  }
  // Degrees are also checked on one rank, so that errors are found before a run is scaled up.
  absl::StatusOr<Strategy> strategy = row->resolve(options, ranks);
  if (strategy.ok()) strategy->name = std::string(row->alias_of);
  if (strategy.ok() && ranks == 1) strategy = Dense();
  return strategy;
}

std::vector<Strategy> CandidatesOfAuto(const StrategyOptions& options, int ranks) {
  std::vector<Strategy> candidates;
  const auto add = [&](const std::string& name, int ulysses_degree = 0) {
    candidates.push_back(*ResolveStrategy({.name = name,
                                           .ulysses_degree = ulysses_degree,
                                           .placement = options.placement,
                                           .ranks_per_machine = options.ranks_per_machine},
                                          ranks));
  };
  add("ulysses");
  add("zigzag-ring");
  add("all-gather");
  for (int heads = 2; heads < ranks; ++heads) {
    if (ranks % heads == 0) add("usp", heads);
  }
  const int machine = options.ranks_per_machine;
  if (machine > 1 && machine < ranks && ranks % machine == 0) add("double-ring");
  return candidates;
}

absl::StatusOr<std::unique_ptr<Attention>> CreateAttention(AttentionOptions options) {
  if (options.group == nullptr)
    return absl::InvalidArgumentError("attention: no group of ranks was given");
  if (options.strategy.name == "auto" && options.group->size() > 1) return CreateAuto(options);
  if (options.strategy.name == "auto") options.strategy.name = "dense";
  auto strategy = ResolveStrategy(options.strategy, options.group->size());
  if (!strategy.ok()) return strategy.status();
  return std::make_unique<HybridAttention>(*std::move(strategy), std::move(options.group),
                                           std::move(options.runners));
}

}  // namespace moonring::attention
