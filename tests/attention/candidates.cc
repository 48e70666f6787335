#include "tests/attention/candidates.h"

#include <algorithm>
#include <ostream>

namespace moonring::attention {
namespace {

using comm::Placement;

struct Variant {
  StrategyOptions options;
  std::vector<int> ranks;
};

const std::vector<int> kSizes = {2, 3, 4, 8};

// In addition to all names with the default options.
const std::vector<Variant> kVariants = {
    {{.name = "double-ring", .double_ring_window = 2}, {4, 8}},
    {{.name = "usp", .ulysses_degree = 2, .placement = Placement::kContextFirst}, {4, 8}},
    {{.name = "usp", .ring_degree = 2}, {2, 8}},
    {{.name = "auto", .shape = {.heads = 4, .kv_heads = 2, .head_dim = 16}}, kSizes},
};

}  // namespace

std::string NameOf(const Case& value) {
  const StrategyOptions& s = value.strategy;
  std::string name =
      s.name + (s.ulysses_degree > 0 ? "_heads" + std::to_string(s.ulysses_degree) : "") +
      (s.ring_degree > 0 ? "_contexts" + std::to_string(s.ring_degree) : "") +
      (s.double_ring_window > 0 ? "_window" + std::to_string(s.double_ring_window) : "") +
      (s.placement == Placement::kContextFirst ? "_context_first" : "") + "_on_" +
      std::to_string(value.ranks);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void PrintTo(const Case& value, std::ostream* out) { *out << NameOf(value); }

std::vector<std::string> NamesOnRanks() {
  std::vector<std::string> names;
  for (const std::string& name : StrategyNames()) {
    const auto strategy = ResolveStrategy({.name = name}, 4);
    if (strategy.ok() && strategy->name == name) names.push_back(name);
  }
  return names;
}

std::vector<Case> AllCases() {
  std::vector<Case> cases = {{{.name = "dense"}}};
  for (const std::string& name : NamesOnRanks()) {
    const bool bit_exact = name == "ulysses" || name == "all-gather";
    for (const int ranks : kSizes) cases.push_back({{.name = name}, ranks, bit_exact});
  }
  for (const Variant& variant : kVariants) {
    for (const int ranks : variant.ranks) cases.push_back({variant.options, ranks});
  }
  return cases;
}

}  // namespace moonring::attention
