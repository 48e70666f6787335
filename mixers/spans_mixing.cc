#include "mixers/spans_mixing.h"

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "comm/autograd/custom_function.h"
#include "mixers/delta_rule.h"
#include "mixers/local_mixing.h"
#include "mixers/span.h"

namespace moonring::mixers {
namespace {

std::vector<int64_t> LengthsOf(const std::vector<comm::Span>& spans) {
  std::vector<int64_t> lengths;
  for (const comm::Span& span : spans) lengths.push_back(span.tokens());
  return lengths;
}

DeltaInputs RowsOf(const DeltaInputs& inputs, int64_t begin, int64_t rows) {
  const auto of = [&](const at::Tensor& x) { return x.narrow(0, begin, rows); };
  return {of(inputs.q_THK), of(inputs.k_THK),   of(inputs.v_THV),
          of(inputs.g),     of(inputs.beta_TH), {}};
}

// A state for each span: those that are undefined are zeros.
at::Tensor StatesOf(const std::vector<at::Tensor>& states, at::IntArrayRef shape,
                    const at::TensorOptions& options) {
  std::vector<int64_t> sizes = {static_cast<int64_t>(states.size())};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  const at::Tensor all = at::zeros(sizes, options);
  for (size_t span = 0; span < states.size(); ++span)
    if (states[span].defined()) all.select(0, span).copy_(states[span]);
  return all;
}

// The gradients of the spans' last states, from later spans.
at::Tensor LastGradients(const DeltaInputs& inputs, const at::Tensor& d_out_THV,
                         const std::vector<int64_t>& lengths, const SpanChains& chains,
                         const std::vector<at::Tensor>& a_HKK, const DeltaOptions& options,
                         at::IntArrayRef shape, const at::TensorOptions& state_options,
                         comm::Communicator& group) {
  std::vector<SpanMap> maps(lengths.size());
  int64_t row = 0;
  for (size_t span = 0; span < lengths.size(); row += lengths[span++]) {
    if (!chains.continues(span)) continue;
    maps[span].b_HVK = FirstStateGradient(RowsOf(inputs, row, lengths[span]),
                                          d_out_THV.narrow(0, row, lengths[span]), options);
    if (a_HKK[span].defined()) maps[span].a_HKK = a_HKK[span].mT();
  }
  return StatesOf(ScanSpans(chains, ScanOrder::kBackward, maps, shape, state_options, group), shape,
                  state_options);
}

}  // namespace

SpansMixing::SpansMixing(std::shared_ptr<const comm::Layout> layout,
                         std::shared_ptr<comm::Communicator> group)
    : group_(std::move(group)),
      lengths_(LengthsOf(layout->spans(group_->rank()))),
      chains_(std::make_shared<const SpanChains>(comm::SpansOf(*layout), group_->rank())),
      convolution_(comm::SpansOf(*layout), group_) {}

at::Tensor SpansMixing::Delta(const DeltaCall& call) {
  const at::Tensor qkv_TC =
      call.taps_CW.defined()
          ? Convolve({.x_TC = call.x_TC, .taps_CW = call.taps_CW, .bias_C = {}, .silu = true})
          : call.x_TC;
  DeltaInputs inputs = InputsOf(call, qkv_TC);
  if (chains_->chains().empty()) return GatedDeltaRule(inputs, lengths_, call.options).out_THV;
  CheckDeltaInputs(inputs, lengths_);
  const std::vector<int64_t> shape = {call.value_heads, call.value_dim, call.key_dim};
  const at::TensorOptions state_options = qkv_TC.options().dtype(StateDtype(inputs));
  std::vector<SpanMap> maps(lengths_.size());
  std::vector<at::Tensor> a_HKK(lengths_.size());
  {
    const at::NoGradGuard no_grad;
    int64_t row = 0;
    for (size_t span = 0; span < lengths_.size(); row += lengths_[span++]) {
      if (!chains_->goes_on(span)) continue;
      const bool continues = chains_->continues(span);
      maps[span] =
          MapOfSpan(RowsOf(inputs, row, lengths_[span]), {lengths_[span]}, continues, call.options);
      if (continues) a_HKK[span] = maps[span].a_HKK;
    }
    inputs.initial_DHVK =
        StatesOf(ScanSpans(*chains_, ScanOrder::kForward, maps, shape, state_options, *group_),
                 shape, state_options);
  }
  const DeltaResult result = GatedDeltaRule(inputs, lengths_, call.options);
  // The identity, whose backward gives the last states their gradients.
  return comm::ApplyToOne(
      {.name = "states of spans",
       .forward = [&](comm::Tensors* saved) -> comm::Tensors {
         *saved = {inputs.q_THK, inputs.k_THK, inputs.v_THV, inputs.g, inputs.beta_TH};
         return {result.out_THV.detach()};
       },
       .backward = [lengths = lengths_, chains = chains_, group = group_, a_HKK, shape,
                    state_options,
                    options = call.options](comm::BackwardCall& call) -> comm::Tensors {
         const comm::Tensors& saved = call.saved;
         return {call.gradients[0],
                 LastGradients({saved[0], saved[1], saved[2], saved[3], saved[4], {}},
                               call.gradients[0], lengths, *chains, a_HKK, options, shape,
                               state_options, *group)};
       }},
      {result.out_THV, result.final_DHVK, inputs.q_THK, inputs.k_THK, inputs.v_THV, inputs.g,
       inputs.beta_TH});
}

}  // namespace moonring::mixers
