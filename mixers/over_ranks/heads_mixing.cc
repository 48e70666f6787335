#include "mixers/over_ranks/heads_mixing.h"

#include <utility>

#include <ATen/ops/cat.h>

#include "mixers/over_ranks/head_share.h"

namespace moonring::mixers {
namespace {

// The rows of the taps, or of the bias, for this rank's channels; differentiable.
at::Tensor OfChannels(const at::Tensor& x_CW, const comm::ColumnSplit& channels, int rank) {
  if (!x_CW.defined()) return x_CW;
  std::vector<at::Tensor> rows;
  for (const comm::ColumnRange& range : channels.of_rank[rank])
    rows.push_back(x_CW.narrow(0, range.begin, range.count));
  return at::cat(rows);
}

}  // namespace

HeadsMixing::HeadsMixing(std::shared_ptr<const comm::Layout> layout,
                         std::shared_ptr<comm::Communicator> group,
                         const std::vector<comm::Parent>& parents)
    : group_(std::move(group)),
      to_stream_(std::make_shared<const comm::RowMap>(comm::SpansOf(*layout),
                                                      comm::WholeStream(*layout), group_->rank())),
      whole_(layout->lengths(), parents),
      convolution_(comm::SpansOf(*layout), group_, parents) {}

at::Tensor HeadsMixing::Delta(const DeltaCall& call) {
  const int rank = group_->rank(), ranks = group_->size();
  const auto channels = ChannelsOfHeads(call, ranks), heads = ValueHeads(call, ranks);
  const HeadShare share = HeadShareOf(call, rank, ranks);
  TORCH_CHECK(!call.taps_CW.defined() || call.taps_CW.size(0) == channels->width,
              "delta rule: taps ", call.taps_CW.sizes(), " for ", channels->width, " channels");
  const std::vector<at::Tensor> here = comm::MoveRows({{call.x_TC, to_stream_, channels},
                                                       {call.g, to_stream_, heads},
                                                       {call.beta_TH, to_stream_, heads}},
                                                      group_);
  DeltaCall own = call;
  own.g = here[1];
  own.beta_TH = here[2];
  own.key_heads = share.keys();
  own.value_heads = share.values();
  at::Tensor qkv_TC = here[0];
  if (call.taps_CW.defined())
    qkv_TC = whole_.Convolve({.x_TC = qkv_TC,
                              .taps_CW = OfChannels(call.taps_CW, *channels, rank),
                              .bias_C = OfChannels(call.bias_C, *channels, rank),
                              .silu = true});
  at::Tensor out_THV;
  if (share.values() == 0) {
    // The output is empty, but must be part of the autograd graph, since the exchange's backward is
    // collective.
    out_THV = qkv_TC.view({qkv_TC.size(0), 0, call.value_dim});
  } else {
    DeltaInputs inputs = InputsOf(own, qkv_TC);
    if (at::Tensor keys = RepeatedKeys(call, share); keys.defined()) {
      keys = keys.to(qkv_TC.device());
      inputs.q_THK = inputs.q_THK.index_select(1, keys);
      inputs.k_THK = inputs.k_THK.index_select(1, keys);
    }
    out_THV = whole_.Rule(inputs, call.options);
    if (call.skip_H.defined())
      out_THV = WithSkip(out_THV, inputs.v_THV,
                         call.skip_H.narrow(0, share.values_begin, share.values()));
  }
  return comm::MoveRowsBack({{out_THV, to_stream_, heads}}, group_)[0];
}

}  // namespace moonring::mixers
