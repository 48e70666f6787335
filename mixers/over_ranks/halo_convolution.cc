#include "mixers/over_ranks/halo_convolution.h"

#include "mixers/rule/generations.h"
#include "mixers/rule/short_convolution.h"

namespace moonring::mixers {

at::Tensor HaloConvolution::operator()(const ConvolutionCall& call) const {
  TORCH_CHECK(call.taps_CW.dim() == 2 && call.taps_CW.size(1) > 0,
              "short convolution: expected taps [C, W], got ", call.taps_CW.sizes());
  const comm::SpansOfRanks halos = HalosOf(spans_, call.taps_CW.size(1), parents_);
  const auto map = std::make_shared<const comm::RowMap>(spans_, halos, group_->rank());
  std::vector<int64_t> lengths, before;
  for (const comm::Span& span : spans_[group_->rank()]) {
    lengths.push_back(span.tokens());
    before.push_back(comm::RowsOf(RowsBefore(span, call.taps_CW.size(1), parents_)));
  }
  const at::Tensor halo = comm::MoveRows({{call.x_TC, map, nullptr}}, group_)[0];
  return ShortConvolution(
      {.x_TC = call.x_TC, .weight_CW = call.taps_CW, .bias_C = call.bias_C, .halo_RC = halo},
      lengths, {.silu = call.silu, .halo_lengths = before});
}

}  // namespace moonring::mixers
