#include "mixers/halo_convolution.h"

#include <algorithm>
#include <vector>

#include "mixers/short_convolution.h"

namespace moonring::mixers {

comm::SpansOfRanks HalosOf(const comm::SpansOfRanks& spans, int64_t taps) {
  comm::SpansOfRanks halos(spans.size());
  for (size_t rank = 0; rank < spans.size(); ++rank)
    for (const comm::Span& span : spans[rank])
      halos[rank].push_back(
          {span.document, std::max<int64_t>(0, span.begin - (taps - 1)), span.begin});
  return halos;
}

at::Tensor HaloConvolution::operator()(const ConvolutionCall& call) const {
  TORCH_CHECK(call.taps_CW.dim() == 2 && call.taps_CW.size(1) > 0,
              "short convolution: want taps [C, W], got ", call.taps_CW.sizes());
  const comm::SpansOfRanks halos = HalosOf(spans_, call.taps_CW.size(1));
  const auto map = std::make_shared<const comm::RowMap>(spans_, halos, group_->rank());
  std::vector<int64_t> lengths, before;
  for (const comm::Span& span : spans_[group_->rank()]) lengths.push_back(span.tokens());
  for (const comm::Span& span : halos[group_->rank()]) before.push_back(span.tokens());
  const at::Tensor halo = comm::MoveRows({{call.x_TC, map, nullptr}}, group_)[0];
  return ShortConvolution(
      {.x_TC = call.x_TC, .weight_CW = call.taps_CW, .bias_C = call.bias_C, .halo_RC = halo},
      lengths, {.silu = call.silu, .halo_lengths = before});
}

}  // namespace moonring::mixers
