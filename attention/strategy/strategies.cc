#include "attention/strategy/strategies.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace moonring::attention {
namespace {

using comm::Division;
using comm::Ownership;

// The largest divisor of `ranks` up to its square root.
int DivisorNearRoot(int ranks) {
  int divisor = 1;
  for (int d = 1; d * d <= ranks; ++d) {
    if (ranks % d == 0) divisor = d;
  }
  return divisor;
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
  return Strategy{"usp", Division{contexts, Ownership::kZigzag, heads, options.placement},
                  KeyTransport::kRing, contexts};
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
  return Strategy{"double-ring", Division{ranks, Ownership::kZigzag}, KeyTransport::kRing, window};
}

absl::StatusOr<Strategy> ResolveDense(const StrategyOptions&, int ranks) {
  if (ranks == 1) return Strategy{"dense", Division{1}};
  return absl::InvalidArgumentError(
      absl::StrCat("dense attention works on one rank, the group has ", ranks));
}

absl::StatusOr<Strategy> ResolveUlysses(const StrategyOptions&, int ranks) {
  return Strategy{"ulysses", Division{1, Ownership::kContiguous, ranks}};
}

absl::StatusOr<Strategy> ResolveRing(const StrategyOptions&, int ranks) {
  return Strategy{"ring", Division{ranks, Ownership::kContiguous}, KeyTransport::kRing, ranks};
}

absl::StatusOr<Strategy> ResolveZigzagRing(const StrategyOptions&, int ranks) {
  return Strategy{"zigzag-ring", Division{ranks, Ownership::kZigzag}, KeyTransport::kRing, ranks};
}

absl::StatusOr<Strategy> ResolveAllGather(const StrategyOptions&, int ranks) {
  return Strategy{"all-gather", Division{ranks, Ownership::kZigzag}, KeyTransport::kGather, ranks};
}

absl::StatusOr<Strategy> ResolveAuto(const StrategyOptions&, int) {
  return absl::InvalidArgumentError("auto is no single strategy");
}

struct Row {
  absl::string_view name;
  absl::StatusOr<Strategy> (*resolve)(const StrategyOptions& options, int ranks);
};

// Strategies in the order in which help lists them. Several names may select the same strategy.
constexpr Row kRows[] = {
    {"zigzag-ring", &ResolveZigzagRing},
    {"ring", &ResolveRing},
    {"ulysses", &ResolveUlysses},
    {"all-gather", &ResolveAllGather},
    {"llama3", &ResolveAllGather},
    {"usp", &ResolveUsp},
    {"double-ring", &ResolveDoubleRing},
    {"auto", &ResolveAuto},
    {"dense", &ResolveDense},
};

absl::StatusOr<std::unique_ptr<Attention>> CreateAuto(const AttentionOptions& options) {
  const AttentionShape& shape = options.strategy.shape;
  if (shape.heads <= 0 || shape.kv_heads <= 0 || shape.head_dim <= 0) {
    return absl::InvalidArgumentError(
        "attention: \"auto\" chooses by the model's heads, which were not given");
  }
  const int ranks = options.group->size(), machine = options.strategy.ranks_per_machine;
  std::vector<StrategyOptions> wanted;
  const auto add = [&](const std::string& name) -> StrategyOptions& {
    wanted.push_back(
        {.name = name, .placement = options.strategy.placement, .ranks_per_machine = machine});
    return wanted.back();
  };
  add("ulysses");
  add("zigzag-ring");
  add("all-gather");
  for (int heads = 2; heads < ranks; ++heads) {
    if (ranks % heads == 0) add("usp").ulysses_degree = heads;
  }
  if (machine > 1 && machine < ranks && ranks % machine == 0) add("double-ring");
  std::vector<std::unique_ptr<HybridAttention>> candidates;
  for (const StrategyOptions& candidate : wanted) {
    auto strategy = ResolveStrategy(candidate, ranks);
    if (!strategy.ok()) return strategy.status();
    candidates.push_back(
        std::make_unique<HybridAttention>(*std::move(strategy), options.group, options.runners));
  }
  return std::make_unique<AutoAttention>(shape, options.machine, machine, std::move(candidates));
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
  if (strategy.ok() && ranks == 1) strategy = Strategy{"dense", Division{1}};
  return strategy;
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
