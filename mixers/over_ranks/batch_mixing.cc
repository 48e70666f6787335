#include "mixers/over_ranks/batch_mixing.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "base/memory/to_device.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/rule/delta_recurrence.h"
#include "mixers/rule/delta_rule.h"
#include "mixers/rule/short_convolution.h"

namespace moonring::mixers {
namespace {

// The convolution of one new row for each of D sequences. The taps read the W - 1 rows before it
// and the row itself.
at::Tensor ConvolveSingles(const ConvolutionCall& call, const at::Tensor& seen_DWC) {
  const at::ScalarType dtype = call.x_TC.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor seen = seen_DWC.to(dtype), taps = call.taps_CW.to(dtype);
  const int64_t width = taps.size(1);
  at::Tensor z = seen.select(1, width - 1) * taps.select(1, width - 1);
  for (int64_t tap = 0; tap + 1 < width; ++tap)
    z.addcmul_(seen.select(1, tap), taps.select(1, tap));
  if (call.bias_C.defined()) z.add_(call.bias_C.to(dtype));
  return (call.silu ? at::silu(z) : z).to(call.x_TC.scalar_type());
}

DeltaInputs RowsAndStatesOf(const DeltaInputs& inputs, int64_t begin, int64_t rows,
                            int64_t first_state, int64_t states) {
  const auto of = [&](const at::Tensor& x) { return x.narrow(0, begin, rows); };
  return {of(inputs.q_THK), of(inputs.k_THK),   of(inputs.v_THV),
          of(inputs.g),     of(inputs.beta_TH), inputs.initial_DHVK.narrow(0, first_state, states)};
}

}  // namespace

int64_t BatchMixing::Take() {
  if (free_.empty()) return places_++;
  const int64_t place = free_.back();
  free_.pop_back();
  return place;
}

int64_t BatchMixing::Open() {
  const at::NoGradGuard no_grad;
  const int64_t place = Take();
  for (auto& [number, layer] : layers_) {
    for (const at::Tensor* held : {&layer.last_NRC, &layer.state_NHVK})
      if (held->defined() && place < held->size(0)) held->select(0, place).zero_();
  }
  return place;
}

int64_t BatchMixing::Fork(int64_t sequence) {
  const at::NoGradGuard no_grad;
  const int64_t place = Take();
  for (auto& [number, layer] : layers_) {
    for (at::Tensor* held : {&layer.last_NRC, &layer.state_NHVK}) {
      if (!held->defined()) continue;
      Reserve(*held, held->sizes().slice(1), held->options());
      held->select(0, place).copy_(held->select(0, sequence));
    }
  }
  return place;
}

void BatchMixing::Close(int64_t sequence) { free_.push_back(sequence); }

void BatchMixing::Put(int64_t layer, const std::vector<int64_t>& sequences,
                      const at::Tensor& last_DRC, const at::Tensor& state_DHVK) {
  const at::NoGradGuard no_grad;
  Layer& of_layer = layers_[layer];
  const auto put = [&](at::Tensor& held, const at::Tensor& brought) {
    if (!brought.defined()) return;
    Reserve(held, brought.sizes().slice(1), brought.options());
    held.index_copy_(0, base::ToDevice(sequences, brought.device()), brought);
  };
  put(of_layer.last_NRC, last_DRC);
  put(of_layer.state_NHVK, state_DHVK);
}

void BatchMixing::Begin(std::vector<Rows> rows) {
  singles_ = rows_ = 0;
  lengths_.clear();
  sequences_.clear();
  for (const Rows& of : rows) {
    TORCH_CHECK(of.rows > 0 && of.sequence >= 0 && of.sequence < places_, "batch mixing: ", of.rows,
                " rows of sequence ", of.sequence, " of ", places_);
    if (of.rows == 1 && lengths_.empty()) {
      ++singles_;
    } else {
      lengths_.push_back(of.rows);
    }
    rows_ += of.rows;
    sequences_.push_back(of.sequence);
  }
}

void BatchMixing::Reserve(at::Tensor& held, at::IntArrayRef of_sequence,
                          const at::TensorOptions& options) {
  const int64_t before = held.defined() ? held.size(0) : 0;
  TORCH_CHECK(before == 0 || held.sizes().slice(1) == of_sequence, "batch mixing: a layer has ",
              held.sizes(), ", got ", of_sequence);
  if (before >= places_) return;
  std::vector<int64_t> sizes = {std::max(places_, 2 * before)};
  sizes.insert(sizes.end(), of_sequence.begin(), of_sequence.end());
  const at::Tensor grown = at::zeros(sizes, options);
  if (before > 0) grown.narrow(0, 0, before).copy_(held);
  held = grown;
}

at::Tensor BatchMixing::Convolved(const ConvolutionCall& call, Layer& layer) {
  const at::Tensor& x = call.x_TC;
  TORCH_CHECK(x.dim() == 2 && call.taps_CW.dim() == 2 && call.taps_CW.size(1) > 0,
              "short convolution: expected x [T, C] and taps [C, W], got ", x.sizes(), " and ",
              call.taps_CW.sizes());
  TORCH_CHECK(x.size(0) == rows_, "batch mixing: ", x.size(0), " rows in a forward of ", rows_);
  if (rows_ == 0) return x;
  const int64_t channels = x.size(1), before = call.taps_CW.size(1) - 1,
                others = static_cast<int64_t>(lengths_.size());
  Reserve(layer.last_NRC, {before, channels}, x.options());
  const at::Tensor places = base::ToDevice(sequences_, x.device());
  const at::Tensor last_DRC = layer.last_NRC.index_select(0, places);
  std::vector<at::Tensor> outs, kept;
  if (singles_ > 0) {
    const at::Tensor seen_DWC =
        at::cat({last_DRC.narrow(0, 0, singles_), x.narrow(0, 0, singles_).unsqueeze(1)}, 1);
    outs.push_back(ConvolveSingles(call, seen_DWC));
    kept.push_back(seen_DWC.narrow(1, 1, before));
  }
  if (others > 0) {
    const at::Tensor halo_DRC = last_DRC.narrow(0, singles_, others),
                     own = x.narrow(0, singles_, rows_ - singles_);
    outs.push_back(
        ShortConvolution({.x_TC = own,
                          .weight_CW = call.taps_CW,
                          .bias_C = call.bias_C,
                          .halo_RC = before > 0 ? halo_DRC.reshape({-1, channels}) : at::Tensor()},
                         lengths_,
                         {.silu = call.silu,
                          .halo_lengths = before > 0 ? std::vector<int64_t>(others, before)
                                                     : std::vector<int64_t>()}));
    int64_t row = 0;
    for (int64_t d = 0; d < others; row += lengths_[d++]) {
      const at::Tensor rows = at::cat({halo_DRC.select(0, d), own.narrow(0, row, lengths_[d])}, 0);
      kept.push_back(rows.narrow(0, lengths_[d], before).unsqueeze(0));
    }
  }
  layer.last_NRC.index_copy_(0, places, at::cat(kept));
  return outs.size() == 1 ? outs[0] : at::cat(outs);
}

DeltaResult BatchMixing::Rule(const DeltaInputs& inputs, const DeltaOptions& options) const {
  const auto others = static_cast<int64_t>(lengths_.size());
  std::vector<at::Tensor> outs, states;
  if (singles_ > 0) {
    DeltaStepResult step = DeltaStep(RowsAndStatesOf(inputs, 0, singles_, 0, singles_), options);
    outs.push_back(std::move(step.out_DHV));
    states.push_back(std::move(step.state_DHVK));
  }
  if (others > 0) {
    DeltaResult made = GatedDeltaRule(
        RowsAndStatesOf(inputs, singles_, rows_ - singles_, singles_, others), lengths_, options);
    outs.push_back(std::move(made.out_THV));
    states.push_back(std::move(made.final_DHVK));
  }
  if (outs.size() == 1) return {std::move(outs[0]), std::move(states[0])};
  return {at::cat(outs), at::cat(states)};
}

at::Tensor BatchMixing::Delta(const DeltaCall& call) {
  const at::NoGradGuard no_grad;
  Layer& layer = layers_[call.layer];
  const at::Tensor qkv_TC =
      call.taps_CW.defined() ? Convolved(ConvolutionOf(call), layer) : call.x_TC;
  TORCH_CHECK(qkv_TC.size(0) == rows_, "batch mixing: ", qkv_TC.size(0), " rows in a forward of ",
              rows_);
  DeltaInputs inputs = InputsOf(call, qkv_TC);
  CheckDeltaInputs(inputs, {rows_});
  if (rows_ == 0) return inputs.v_THV;
  Reserve(layer.state_NHVK, {call.value_heads, call.value_dim, call.key_dim},
          qkv_TC.options().dtype(StateDtype(inputs)));
  const at::Tensor places = base::ToDevice(sequences_, qkv_TC.device());
  inputs.initial_DHVK = layer.state_NHVK.index_select(0, places);
  const DeltaResult made = Rule(inputs, call.options);
  layer.state_NHVK.index_copy_(0, places, made.final_DHVK);
  return WithSkip(made.out_THV, inputs.v_THV, call.skip_H);
}

at::Tensor BatchMixing::Convolve(const ConvolutionCall& call) {
  const at::NoGradGuard no_grad;
  return Convolved(call, layers_[call.layer]);
}

int64_t BatchMixing::bytes() const {
  int64_t bytes = 0;
  for (const auto& [number, layer] : layers_)
    for (const at::Tensor* held : {&layer.last_NRC, &layer.state_NHVK})
      if (held->defined()) bytes += static_cast<int64_t>(held->nbytes());
  return bytes;
}

}  // namespace moonring::mixers
