#include "mixers/over_ranks/end_states.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "base/status/torch_status.h"
#include "comm/row_exchange.h"
#include "mixers/over_ranks/halo_convolution.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/rule/span.h"

namespace moonring::mixers {

at::Tensor EndStates::LastRows(const ConvolutionCall& call) const {
  const int64_t wanted = call.taps_CW.size(1) - 1, channels = call.x_TC.size(1);
  const std::vector<int64_t>& lengths = layout_->lengths();
  const auto documents = static_cast<int64_t>(lengths.size());
  at::Tensor last = at::zeros({documents, wanted, channels}, call.x_TC.options());
  std::vector<comm::Span> ends;
  for (int64_t d = 0; d < documents; ++d)
    ends.push_back({d, std::max<int64_t>(0, lengths[d] - wanted), lengths[d]});
  const auto map = std::make_shared<const comm::RowMap>(
      comm::SpansOf(*layout_), comm::SpansOfRanks(group_->size(), ends), group_->rank());
  const at::Tensor rows = comm::MoveRows({{call.x_TC, map, nullptr}}, group_)[0];
  int64_t row = 0;
  for (int64_t d = 0; d < documents; ++d) {
    const int64_t count = ends[d].tokens();
    last.select(0, d).narrow(0, wanted - count, count).copy_(rows.narrow(0, row, count));
    row += count;
  }
  return last;
}

at::Tensor EndStates::LastStates(const DeltaCall& call) const {
  const at::Tensor qkv_TC =
      call.taps_CW.defined() ? HaloConvolution(comm::SpansOf(*layout_), group_)(ConvolutionOf(call))
                             : call.x_TC;
  const DeltaInputs all = InputsOf(call, qkv_TC);
  const int64_t heads = call.value_heads, keys = call.key_dim, values = call.value_dim;
  const at::TensorOptions options = qkv_TC.options().dtype(StateDtype(all));
  // The maps of this rank's spans (span.h), each as one tensor [H, d_k + d_v, d_k]: the rows of A,
  // then those of B.
  std::vector<at::Tensor> maps;
  int64_t row = 0;
  for (const comm::Span& span : layout_->spans(group_->rank())) {
    const auto of = [&](const at::Tensor& x) { return x.narrow(0, row, span.tokens()); };
    const SpanMap map =
        MapOfSpan({of(all.q_THK), of(all.k_THK), of(all.v_THV), of(all.g), of(all.beta_TH), {}},
                  {span.tokens()}, /*continues=*/true, call.options);
    maps.push_back(at::cat({map.a_HKK, map.b_HVK}, 1));
    row += span.tokens();
  }
  std::vector<int64_t> counts;
  for (int rank = 0; rank < group_->size(); ++rank)
    counts.push_back(static_cast<int64_t>(layout_->spans(rank).size()));
  const at::Tensor mine =
      maps.empty() ? at::empty({0, heads, keys + values, keys}, options) : at::stack(maps);
  const std::vector<at::Tensor> of_ranks =
      base::ValueOrThrow(group_->AllGather(mine.contiguous(), counts));
  // Each document's spans in order.
  struct Place {
    comm::Span span;
    at::Tensor map;
  };
  std::vector<Place> places;
  for (int rank = 0; rank < group_->size(); ++rank) {
    const std::vector<comm::Span>& spans = layout_->spans(rank);
    for (size_t s = 0; s < spans.size(); ++s)
      places.push_back({spans[s], of_ranks[rank][static_cast<int64_t>(s)]});
  }
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return a.span.begin < b.span.begin; });
  at::Tensor states =
      at::zeros({static_cast<int64_t>(layout_->lengths().size()), heads, values, keys}, options);
  for (const Place& place : places) {
    const SpanMap map{place.map.narrow(1, 0, keys), place.map.narrow(1, keys, values)};
    const at::Tensor state = states.select(0, place.span.document);
    state.copy_(ApplySpan(map, state));
  }
  return states;
}

at::Tensor EndStates::Delta(const DeltaCall& call) {
  const at::NoGradGuard no_grad;
  DocumentEnds ends;
  if (call.taps_CW.defined()) ends.last_DRC = LastRows(ConvolutionOf(call));
  ends.state_DHVK = LastStates(call);
  sink_(call.layer, ends);
  return mixing_->Delta(call);
}

at::Tensor EndStates::Convolve(const ConvolutionCall& call) {
  const at::NoGradGuard no_grad;
  sink_(call.layer, {LastRows(call), {}});
  return mixing_->Convolve(call);
}

}  // namespace moonring::mixers
