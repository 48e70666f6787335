#include "mixers/over_ranks/relay_schedule.h"

#include <algorithm>
#include <set>

namespace moonring::mixers {
namespace {

constexpr int64_t kGroupsOfPlace = 4;

int64_t LongestOf(const SpanChains& chains) {
  size_t longest = 0;
  for (const auto& chain : chains.chains()) longest = std::max(longest, chain.size());
  return static_cast<int64_t>(longest);
}

}  // namespace

std::vector<int64_t> RelayGroups(const SpanChains& chains, int64_t key_heads) {
  const int64_t groups =
      std::clamp<int64_t>(kGroupsOfPlace * LongestOf(chains), 1, std::max<int64_t>(1, key_heads));
  std::vector<int64_t> sizes;
  for (int64_t g = 0; g < groups; ++g)
    sizes.push_back((g + 1) * key_heads / groups - g * key_heads / groups);
  return sizes;
}

int64_t RelayRounds(const SpanChains& chains, int64_t groups) {
  const int64_t longest = LongestOf(chains);
  return longest == 0 ? 0 : groups + longest - 1;
}

std::vector<RelayHop> HopsAfter(const SpanChains& chains, ScanOrder order, int64_t groups,
                                int64_t round) {
  std::vector<RelayHop> hops;
  for (const auto& chain : chains.chains()) {
    const auto spans = static_cast<int64_t>(chain.size());
    const auto link = [&](int64_t place) {
      return chain[order == ScanOrder::kForward ? place : spans - 1 - place];
    };
    const int64_t end = std::min(round + 1, spans - 1);
    for (int64_t i = std::max<int64_t>(0, round + 1 - groups); i < end; ++i)
      hops.push_back({link(i), link(i + 1), round - i});
  }
  return hops;
}

comm::RowTraffic CountRelay(const SpanChains& chains, ScanOrder order, int64_t key_heads,
                            int64_t key_bytes) {
  const std::vector<int64_t> sizes = RelayGroups(chains, key_heads);
  const auto groups = static_cast<int64_t>(sizes.size());
  comm::RowTraffic traffic;
  for (int64_t round = 0; round < RelayRounds(chains, groups); ++round) {
    std::set<int> to_ranks, from_ranks;
    for (const RelayHop& hop : HopsAfter(chains, order, groups, round)) {
      if (hop.from.rank == hop.to.rank) continue;
      if (hop.to.rank == chains.rank()) from_ranks.insert(hop.from.rank);
      if (hop.from.rank != chains.rank()) continue;
      to_ranks.insert(hop.to.rank);
      traffic.bytes += sizes[hop.group] * key_bytes;
    }
    traffic.steps += static_cast<int64_t>(std::max(to_ranks.size(), from_ranks.size()));
  }
  return traffic;
}

}  // namespace moonring::mixers
