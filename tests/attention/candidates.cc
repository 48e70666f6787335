#include "tests/attention/candidates.h"

#include <algorithm>
#include <ostream>

namespace moonring::attention {
namespace {

using comm::Placement;

struct Candidate {
  StrategyOptions options;
  bool bit_exact = false;
  std::vector<int> ranks = {2, 3, 4, 8};
};

const std::vector<Candidate> kStrategies = {
    {{.name = "ulysses"}, /*bit_exact=*/true},
    {{.name = "ring"}},
    {{.name = "zigzag-ring"}},
    {{.name = "all-gather"}, /*bit_exact=*/true},
    {{.name = "double-ring"}},
    {{.name = "double-ring", .double_ring_window = 2}, false, {4, 8}},
    {{.name = "usp"}},
    {{.name = "usp", .ulysses_degree = 2, .placement = Placement::kContextFirst}, false, {4, 8}},
    {{.name = "usp", .ring_degree = 2}, false, {2, 8}},
    {{.name = "auto", .shape = {.heads = 4, .kv_heads = 2, .head_dim = 16}}},
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

std::vector<Case> AllCases() {
  std::vector<Case> cases = {{{.name = "dense"}}};
  for (const Candidate& candidate : kStrategies) {
    for (const int ranks : candidate.ranks)
      cases.push_back({candidate.options, ranks, candidate.bit_exact});
  }
  return cases;
}

}  // namespace moonring::attention
