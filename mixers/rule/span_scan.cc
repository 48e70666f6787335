#include "mixers/rule/span_scan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "base/status/torch_status.h"

namespace moonring::mixers {
namespace {

at::Tensor Packed(const SpanMap& map, bool state_only) {
  return state_only ? map.b_HVK.contiguous() : at::cat({map.a_HKK, map.b_HVK}, 1);
}

// One exchange of a scan. Each span from index `first` of its document on sends its product of maps
// to the span `offset` further. The products of spans up to index `reach` are states.
struct Stage {
  size_t offset, first, reach;
};

std::vector<Stage> StagesOf(const SpanChains& chains) {
  size_t longest = 0;
  for (const auto& chain : chains.chains()) longest = std::max(longest, chain.size());
  std::vector<Stage> stages;
  if (longest > 1) stages.push_back({1, 0, 0});
  for (size_t d = 1; d + 1 < longest; d *= 2) stages.push_back({d, 1, d});
  return stages;
}

// Calls hop(from, to, state_only), in the same order on every rank.
template <typename Hop>
void ForEachHop(const SpanChains& chains, ScanOrder order, const Stage& stage, const Hop& hop) {
  for (const auto& chain : chains.chains()) {
    const size_t spans = chain.size();
    const auto link = [&](size_t place) {
      return chain[order == ScanOrder::kForward ? place : spans - 1 - place];
    };
    for (size_t i = stage.first; i + stage.offset < spans; ++i)
      hop(link(i), link(i + stage.offset), i <= stage.reach);
  }
}

}  // namespace

SpanChains::SpanChains(const comm::SpansOfRanks& spans, int rank)
    : rank_(rank),
      continues_(spans.at(rank).size(), false),
      goes_on_(spans.at(rank).size(), false) {
  struct Place {
    int64_t begin;
    Link link;
  };
  std::map<int64_t, std::vector<Place>> of_document;
  for (size_t r = 0; r < spans.size(); ++r)
    for (size_t s = 0; s < spans[r].size(); ++s)
      of_document[spans[r][s].document].push_back(
          {spans[r][s].begin, {static_cast<int>(r), static_cast<int64_t>(s)}});
  for (auto& [document, places] : of_document) {
    if (places.size() < 2) continue;
    std::sort(places.begin(), places.end(),
              [](const Place& a, const Place& b) { return a.begin < b.begin; });
    std::vector<Link> chain;
    for (size_t i = 0; i < places.size(); ++i) {
      const Link& link = places[i].link;
      chain.push_back(link);
      if (link.rank != rank) continue;
      continues_[link.span] = i > 0;
      goes_on_[link.span] = i + 1 < places.size();
    }
    chains_.push_back(std::move(chain));
  }
}

std::vector<at::Tensor> ScanSpans(const SpanChains& chains, ScanOrder order,
                                  const std::vector<SpanMap>& maps, at::IntArrayRef state_shape,
                                  const at::TensorOptions& options, comm::Communicator& group) {
  const int64_t heads = state_shape[0], width = state_shape[1], keys = state_shape[2];
  std::vector<SpanMap> windows(maps.size());  // for each span: the product of the maps of spans
                                              // before it
  // First each map is sent to the next span, then products of d maps are sent.
  struct Arrival {
    int64_t span;
    bool state_only;
    at::Tensor packed;
  };
  const auto exchange = [&](const Stage& stage, const std::vector<SpanMap>& held) {
    std::vector<comm::Communicator::Message> send, receive;
    std::vector<Arrival> arrivals;
    ForEachHop(chains, order, stage,
               [&](const SpanChains::Link& from, const SpanChains::Link& to, bool state_only) {
                 if (from.rank == chains.rank())
                   send.push_back({Packed(held[from.span], state_only), to.rank});
                 if (to.rank != chains.rank()) return;
                 arrivals.push_back(
                     {to.span, state_only,
                      at::empty({heads, state_only ? width : keys + width, keys}, options)});
                 receive.push_back({arrivals.back().packed, from.rank});
               });
    auto transfer = base::ValueOrThrow(group.Exchange(std::move(send), std::move(receive)));
    base::ThrowIfError(transfer.Wait());
    for (const Arrival& arrival : arrivals) {
      SpanMap come{{}, arrival.packed};
      if (!arrival.state_only)
        come = {arrival.packed.narrow(1, 0, keys), arrival.packed.narrow(1, keys, width)};
      SpanMap& window = windows[arrival.span];
      if (!window.b_HVK.defined()) {
        window = come;
      } else if (arrival.state_only) {
        window = {{}, ApplySpan(window, come.b_HVK)};
      } else {
        window = ComposeSpans(come, window);
      }
    }
  };
  const std::vector<Stage> stages = StagesOf(chains);
  for (size_t i = 0; i < stages.size(); ++i) exchange(stages[i], i == 0 ? maps : windows);
  std::vector<at::Tensor> states;
  for (const SpanMap& window : windows) states.push_back(window.b_HVK);
  return states;
}

comm::RowTraffic CountScan(const SpanChains& chains, ScanOrder order, int64_t a_bytes,
                           int64_t b_bytes) {
  comm::RowTraffic traffic;
  for (const Stage& stage : StagesOf(chains)) {
    std::set<int> to_ranks, from_ranks;
    ForEachHop(chains, order, stage,
               [&](const SpanChains::Link& from, const SpanChains::Link& to, bool state_only) {
                 if (from.rank == to.rank) return;
                 if (to.rank == chains.rank()) from_ranks.insert(from.rank);
                 if (from.rank != chains.rank()) return;
                 to_ranks.insert(to.rank);
                 traffic.bytes += b_bytes + (state_only ? 0 : a_bytes);
               });
    traffic.steps += static_cast<int64_t>(std::max(to_ranks.size(), from_ranks.size()));
  }
  return traffic;
}

}  // namespace moonring::mixers
