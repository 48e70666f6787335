#include "mixers/mixing_cost.h"

#include <memory>
#include <vector>

#include <c10/util/Exception.h>

#include "mixers/halo_convolution.h"
#include "mixers/head_share.h"
#include "mixers/span_scan.h"

namespace moonring::mixers {
namespace {

comm::RowTraffic Sum(const comm::RowTraffic& a, const comm::RowTraffic& b) {
  return {a.steps + b.steps, a.bytes + b.bytes};
}

MixingTraffic ByHeads(const comm::Layout& layout, const MixingSizes& sizes, int rank) {
  const DeltaCall call{.x_TC = {},
                       .taps_CW = {},
                       .g = {},
                       .beta_TH = {},
                       .key_heads = sizes.key_heads,
                       .value_heads = sizes.value_heads,
                       .key_dim = sizes.key_dim,
                       .value_dim = sizes.value_dim};
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
  TORCH_CHECK(strategy != MixingStrategy::kAuto, "mixing cost: wanted heads or spans, got auto");
  if (layout.ranks() == 1) return {};
  if (strategy == MixingStrategy::kHeads) return ByHeads(layout, sizes, rank);
  MixingTraffic traffic;
  if (sizes.taps > 0)
    traffic = TrafficOfConvolution(
        layout, 2 * sizes.key_heads * sizes.key_dim + sizes.value_heads * sizes.value_dim,
        sizes.taps, sizes.element_bytes, rank);
  const SpanChains chains(comm::SpansOf(layout), rank);
  const int64_t keys = sizes.value_heads * sizes.key_dim * sizes.state_bytes;
  traffic.forward = Sum(traffic.forward, CountScan(chains, ScanOrder::kForward,
                                                   keys * sizes.key_dim, keys * sizes.value_dim));
  traffic.backward = Sum(traffic.backward, CountScan(chains, ScanOrder::kBackward,
                                                     keys * sizes.key_dim, keys * sizes.value_dim));
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

}  // namespace moonring::mixers
