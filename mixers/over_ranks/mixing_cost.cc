#include "mixers/over_ranks/mixing_cost.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include <c10/util/Exception.h>

#include "mixers/over_ranks/head_share.h"
#include "mixers/over_ranks/relay_schedule.h"
#include "mixers/rule/generations.h"
#include "mixers/rule/packed_heads.h"
#include "mixers/rule/span_scan.h"

namespace moonring::mixers {
namespace {

comm::RowTraffic Sum(const comm::RowTraffic& a, const comm::RowTraffic& b) {
  return {a.steps + b.steps, a.bytes + b.bytes};
}

DeltaCall CallOf(const MixingSizes& sizes) {
  return {.x_TC = {},
          .taps_CW = {},
          .g = {},
          .beta_TH = {},
          .key_heads = sizes.key_heads,
          .value_heads = sizes.value_heads,
          .key_dim = sizes.key_dim,
          .value_dim = sizes.value_dim};
}

MixingTraffic ByHeads(const comm::Layout& layout, const MixingSizes& sizes, int rank) {
  const DeltaCall call = CallOf(sizes);
  const auto map =
      std::make_shared<const comm::RowMap>(comm::SpansOf(layout), comm::WholeStream(layout), rank);
  const auto heads = ValueHeads(call, layout.ranks());
  const std::vector<comm::CountedRows> in = {
      {map, ChannelsOfHeads(call, layout.ranks()), sizes.element_bytes},
      {map, heads, sizes.state_bytes * (sizes.by_channel ? sizes.key_dim : 1)},
      {map, heads, sizes.state_bytes}};
  const std::vector<comm::CountedRows> out = {{map, heads, sizes.element_bytes * sizes.value_dim}};
  return {Sum(comm::CountMoved(in), comm::CountMovedBack(out)),
          Sum(comm::CountMoved(out), comm::CountMovedBack(in))};
}

}  // namespace

MixingTraffic TrafficOfDelta(MixingStrategy strategy, const comm::Layout& layout,
                             const MixingSizes& sizes, int rank) {
  TORCH_CHECK(strategy != MixingStrategy::kAuto,
              "mixing cost: expected heads, spans or relay, got auto");
  if (layout.ranks() == 1) return {};
  if (strategy == MixingStrategy::kHeads) return ByHeads(layout, sizes, rank);
  MixingTraffic traffic;
  if (sizes.taps > 0)
    traffic = TrafficOfConvolution(layout, sizes.channels(), sizes.taps, sizes.element_bytes, rank);
  const SpanChains chains(comm::SpansOf(layout), rank);
  const auto add = [&](ScanOrder order, comm::RowTraffic& pass) {
    const int64_t column = sizes.value_heads * sizes.key_dim * sizes.state_bytes;
    pass = Sum(
        pass,
        strategy == MixingStrategy::kRelay
            ? CountRelay(chains, order, sizes.key_heads, column * sizes.value_dim / sizes.key_heads)
            : CountScan(chains, order, column * sizes.key_dim, column * sizes.value_dim));
  };
  add(ScanOrder::kForward, traffic.forward);
  add(ScanOrder::kBackward, traffic.backward);
  return traffic;
}

MixingTraffic TrafficOfConvolution(const comm::Layout& layout, int64_t channels, int64_t taps,
                                   int64_t element_bytes, int rank) {
  if (layout.ranks() == 1) return {};
  const comm::SpansOfRanks spans = comm::SpansOf(layout);
  const std::vector<comm::CountedRows> halo = {
      {std::make_shared<const comm::RowMap>(spans, HalosOf(spans, taps), rank), nullptr,
       channels * element_bytes}};
  return {comm::CountMoved(halo), comm::CountMovedBack(halo)};
}

namespace {

// Sizes of one call of the delta rule.
struct RuleRows {
  int64_t tokens = 0, documents = 0, steps = 0;
  void Add(int64_t length) {
    const int64_t own = (length + kDeltaChunk - 1) / kDeltaChunk;
    tokens += length;
    documents += own > 0 ? 1 : 0;
    steps = std::max(steps, own);
  }
};

class Estimate {
 public:
  Estimate(const comm::Layout& layout, const MixingSizes& sizes, const MachineModel& machine)
      : layout_(layout),
        spans_(comm::SpansOf(layout)),
        sizes_(sizes),
        machine_(machine),
        ranks_(layout.ranks()) {}

  double ByHeads() const {
    RuleRows rows;
    for (const int64_t length : layout_.lengths()) rows.Add(length);
    std::vector<HeadShare> shares;
    std::vector<double> row_bytes;  // bytes of one row for each rank's heads, to the rank and back
    double all = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      shares.push_back(HeadShareOf(CallOf(sizes_), rank, ranks_));
      const int64_t keys = shares.back().keys(), values = shares.back().values();
      row_bytes.push_back(static_cast<double>(
          (2 * keys * sizes_.key_dim + 2 * values * sizes_.value_dim) * sizes_.element_bytes +
          values * ((sizes_.by_channel ? sizes_.key_dim : 1) + 1) * sizes_.state_bytes));
      all += row_bytes.back();
    }
    double slowest = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      // In the forward this rank sends its rows to the ranks of other heads, and the outputs of its
      // heads to the ranks that have the rows. In the backward it sends as many gradients.
      const auto own = static_cast<double>(layout_.local_tokens(rank)),
                 others = static_cast<double>(layout_.tokens()) - own;
      const double bytes = own * (all - row_bytes[rank]) + others * row_bytes[rank];
      slowest =
          std::max(slowest, RuleSeconds(rows, shares[rank].keys(), shares[rank].values(), kBoth) +
                                bytes / machine_.bytes + 4 * (ranks_ - 1) * machine_.step_seconds);
    }
    return slowest;
  }

  double BySpans() const {
    double slowest = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const SpanChains chains(spans_, rank);
      RuleRows first, rest;
      double seconds = HaloSeconds(chains, rank);
      for (size_t span = 0; span < spans_[rank].size(); ++span) {
        const int64_t tokens = spans_[rank][span].tokens();
        (chains.continues(span) ? rest : first).Add(tokens);
        if (!chains.continues(span)) continue;
        RuleRows one;
        one.Add(tokens);
        // Time of the contribution to the initial state's gradient, and of the map.
        seconds +=
            RuleSeconds(one, sizes_.key_heads, sizes_.value_heads, chains.goes_on(span) ? 2 : 1);
      }
      seconds += RuleSeconds(first, sizes_.key_heads, sizes_.value_heads, kBoth) +
                 RuleSeconds(rest, sizes_.key_heads, sizes_.value_heads, kBoth);
      const int64_t column = sizes_.value_heads * sizes_.key_dim * sizes_.state_bytes;
      for (const ScanOrder order : {ScanOrder::kForward, ScanOrder::kBackward}) {
        const comm::RowTraffic traffic =
            CountScan(chains, order, column * sizes_.key_dim, column * sizes_.value_dim);
        seconds += TrafficSeconds(traffic);
        // The number of maps that are received and composed is estimated by the number of maps that
        // are sent.
        const auto maps = static_cast<double>(traffic.bytes) /
                          static_cast<double>(column * (sizes_.key_dim + sizes_.value_dim));
        seconds += maps * 2 *
                   static_cast<double>(sizes_.value_heads * sizes_.key_dim * sizes_.key_dim *
                                       (sizes_.key_dim + sizes_.value_dim)) /
                   machine_.flops;
      }
      slowest = std::max(slowest, seconds);
    }
    return slowest;
  }

  double ByRelay() const {
    double slowest_halo = 0;
    for (int rank = 0; rank < ranks_; ++rank)
      slowest_halo = std::max(slowest_halo, HaloSeconds(SpanChains(spans_, rank), rank));
    return slowest_halo + RelaySeconds(ScanOrder::kForward, 1) +
           RelaySeconds(ScanOrder::kBackward, kBoth - 1);
  }

 private:
  static constexpr double kBoth = 4;  // cost of forward and backward, in units of a forward

  // Time of the delta rule. `passes`: its cost in units of a forward.
  double RuleSeconds(const RuleRows& rows, int64_t keys, int64_t values, double passes) const {
    if (rows.tokens == 0 || values == 0) return 0;
    const auto key_dim = static_cast<double>(sizes_.key_dim),
               value_dim = static_cast<double>(sizes_.value_dim);
    const double of_token = 2 * (kDeltaChunk * (3 * key_dim + 2 * value_dim) +
                                 3 * key_dim * value_dim + kDeltaChunk * kDeltaChunk / 3.0);
    const int64_t at_once = KeysAtOnce(machine_.working_numbers, rows.documents,
                                       std::max(sizes_.key_dim, sizes_.value_dim), values / keys);
    const int64_t slices = (keys + at_once - 1) / at_once;
    return passes * (static_cast<double>(rows.tokens * values) * of_token / machine_.flops +
                     static_cast<double>(slices * rows.steps) * machine_.scan_seconds);
  }

  double TrafficSeconds(const comm::RowTraffic& traffic) const {
    return static_cast<double>(traffic.bytes) / machine_.bytes +
           static_cast<double>(traffic.steps) * machine_.step_seconds;
  }

  // Time of the convolution's halos in forward and backward, if each rank receives all its halos
  // from one rank.
  double HaloSeconds(const SpanChains& chains, int rank) const {
    if (sizes_.taps == 0) return 0;
    int64_t halos = 0;
    for (size_t span = 0; span < spans_[rank].size(); ++span)
      halos += chains.continues(span) ? 1 : 0;
    if (halos == 0) return 0;
    return 2 * TrafficSeconds(
                   {1, halos * (sizes_.taps - 1) * sizes_.channels() * sizes_.element_bytes});
  }

  // Time until the last rank of the relay (relay_schedule.h) has finished, if each rank starts each
  // round as early as it can.
  double RelaySeconds(ScanOrder order, double passes) const {
    const SpanChains chains(spans_, 0);
    const std::vector<int64_t> groups = RelayGroups(chains, sizes_.key_heads);
    const auto count = static_cast<int64_t>(groups.size());
    const int64_t shared = sizes_.value_heads / sizes_.key_heads;
    std::vector<double> ready(ranks_, 0), came(ranks_, 0), whole(ranks_, 0);
    std::vector<bool> first(ranks_, false);
    for (const auto& chain : chains.chains())
      first[(order == ScanOrder::kForward ? chain.front() : chain.back()).rank] = true;
    for (int rank = 0; rank < ranks_; ++rank) {
      const SpanChains own(spans_, rank);
      RuleRows rows;
      for (size_t span = 0; span < spans_[rank].size(); ++span)
        if (!own.continues(span) && !own.goes_on(span)) rows.Add(spans_[rank][span].tokens());
      whole[rank] = RuleSeconds(rows, sizes_.key_heads, sizes_.value_heads, passes);
      if (!first[rank]) ready[rank] = whole[rank];
    }
    for (int64_t round = 0; round < RelayRounds(chains, count); ++round) {
      for (int rank = 0; rank < ranks_; ++rank) ready[rank] = std::max(ready[rank], came[rank]);
      for (const auto& chain : chains.chains()) {
        const auto spans = static_cast<int64_t>(chain.size());
        for (int64_t place = std::max<int64_t>(0, round + 1 - count);
             place < std::min(round + 1, spans); ++place) {
          const auto& link = chain[order == ScanOrder::kForward ? place : spans - 1 - place];
          RuleRows rows;
          rows.Add(spans_[link.rank][link.span].tokens());
          const int64_t keys = groups[round - place];
          ready[link.rank] += RuleSeconds(rows, keys, keys * shared, passes);
        }
      }
      for (const RelayHop& hop : HopsAfter(chains, order, count, round)) {
        const int64_t bytes =
            groups[hop.group] * shared * sizes_.key_dim * sizes_.value_dim * sizes_.state_bytes;
        came[hop.to.rank] =
            std::max(came[hop.to.rank], ready[hop.from.rank] + TrafficSeconds({1, bytes}));
      }
    }
    double slowest = 0;
    for (int rank = 0; rank < ranks_; ++rank)
      slowest = std::max(slowest, ready[rank] + (first[rank] ? whole[rank] : 0));
    return slowest;
  }

  const comm::Layout& layout_;
  comm::SpansOfRanks spans_;
  const MixingSizes& sizes_;
  const MachineModel& machine_;
  int ranks_;
};

}  // namespace

double EstimateSeconds(MixingStrategy strategy, const comm::Layout& layout,
                       const MixingSizes& sizes, const MachineModel& machine) {
  TORCH_CHECK(sizes.key_heads > 0 && sizes.value_heads % sizes.key_heads == 0,
              "mixing cost: ", sizes.value_heads, " value heads are no multiple of ",
              sizes.key_heads, " key heads");
  const Estimate estimate(layout, sizes, machine);
  switch (strategy) {
    case MixingStrategy::kHeads:
      return estimate.ByHeads();
    case MixingStrategy::kSpans:
      return estimate.BySpans();
    case MixingStrategy::kRelay:
      return estimate.ByRelay();
    case MixingStrategy::kAuto:
      break;
  }
  return EstimateSeconds(ChooseMixing(layout, sizes, machine), layout, sizes, machine);
}

MixingStrategy ChooseMixing(const comm::Layout& layout, const MixingSizes& sizes,
                            const MachineModel& machine) {
  double least = std::numeric_limits<double>::infinity();
  MixingStrategy best = MixingStrategy::kHeads;
  for (const MixingStrategy strategy : kMixingStrategies) {
    const double seconds = EstimateSeconds(strategy, layout, sizes, machine);
    if (seconds < least) least = seconds, best = strategy;
  }
  return best;
}

}  // namespace moonring::mixers
