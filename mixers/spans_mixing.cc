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

std::vector<int64_t> SpansThat(const SpanChains& chains, size_t spans, bool continue_one) {
  std::vector<int64_t> numbers;
  for (size_t span = 0; span < spans; ++span)
    if (chains.continues(span) == continue_one) numbers.push_back(static_cast<int64_t>(span));
  return numbers;
}

std::vector<at::Tensor> OfSpans(const std::vector<at::Tensor>& all, const SpanRows& some) {
  std::vector<at::Tensor> chosen;
  for (const int64_t span : some.spans()) chosen.push_back(all[span]);
  return chosen;
}

// Calls call(span, its rows, the first of them among those of `rows`).
template <typename Call>
void ForEachSpan(const SpanRows& rows, const Call& call) {
  int64_t row = 0;
  for (size_t i = 0; i < rows.spans().size(); row += rows.lengths()[i++])
    call(rows.spans()[i], rows.lengths()[i], row);
}

}  // namespace

SpansMixing::SpansMixing(std::shared_ptr<const comm::Layout> layout,
                         std::shared_ptr<comm::Communicator> group)
    : group_(std::move(group)),
      lengths_(LengthsOf(layout->spans(group_->rank()))),
      chains_(std::make_shared<const SpanChains>(comm::SpansOf(*layout), group_->rank())),
      begin_(lengths_, SpansThat(*chains_, lengths_.size(), false)),
      go_on_(lengths_, SpansThat(*chains_, lengths_.size(), true)),
      convolution_(comm::SpansOf(*layout), group_) {}

at::Tensor SpansMixing::Delta(const DeltaCall& call) {
  const at::Tensor qkv_TC = call.taps_CW.defined() ? Convolve(ConvolutionOf(call)) : call.x_TC;
  const DeltaInputs inputs = InputsOf(call, qkv_TC);
  return WithSkip(Rule(inputs, call.options), inputs.v_THV, call.skip_H);
}

at::Tensor SpansMixing::Rule(const DeltaInputs& inputs, const DeltaOptions& options) {
  if (chains_->chains().empty()) return GatedDeltaRule(inputs, lengths_, options).out_THV;
  CheckDeltaInputs(inputs, lengths_);
  const at::Tensor& v = inputs.v_THV;
  const std::vector<int64_t> shape = {v.size(1), v.size(2), inputs.k_THK.size(2)};
  const at::TensorOptions state_options = v.options().dtype(StateDtype(inputs));
  DeltaInputs later = go_on_.Of(inputs);
  const DeltaResult begun = GatedDeltaRule(begin_.Of(inputs), begin_.lengths(), options);
  std::vector<SpanMap> maps(lengths_.size());
  std::vector<at::Tensor> a_HKK(lengths_.size());
  {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < begin_.spans().size(); ++i)
      if (chains_->goes_on(begin_.spans()[i]))
        maps[begin_.spans()[i]].b_HVK = begun.final_DHVK.detach()[static_cast<int64_t>(i)];
    ForEachSpan(go_on_, [&](int64_t span, int64_t length, int64_t row) {
      if (!chains_->goes_on(span)) return;
      maps[span] = MapOfSpan(RowsOf(later, row, length), {length}, true, options);
      a_HKK[span] = maps[span].a_HKK;
    });
    later.initial_DHVK = StatesOf(
        OfSpans(ScanSpans(*chains_, ScanOrder::kForward, maps, shape, state_options, *group_),
                go_on_),
        shape, state_options);
  }
  const DeltaResult gone_on = GatedDeltaRule(later, go_on_.lengths(), options);
  // The identity, whose backward gives the last states their gradients, from later spans.
  const comm::Tensors out = comm::Apply(
      {.name = "states of spans",
       .forward = [&](comm::Tensors* saved) -> comm::Tensors {
         *saved = {later.q_THK, later.k_THK, later.v_THV, later.g, later.beta_TH};
         return {begun.out_THV.detach(), gone_on.out_THV.detach()};
       },
       .backward = [begin = begin_, go_on = go_on_, chains = chains_, group = group_, a_HKK, shape,
                    state_options, options](comm::BackwardCall& call) -> comm::Tensors {
         const comm::Tensors& saved = call.saved;
         const DeltaInputs later{saved[0], saved[1], saved[2], saved[3], saved[4], {}};
         const at::Tensor& d_later = call.gradients[1];
         std::vector<SpanMap> maps(a_HKK.size());
         ForEachSpan(go_on, [&](int64_t span, int64_t length, int64_t row) {
           maps[span].b_HVK = FirstStateGradient(RowsOf(later, row, length),
                                                 d_later.narrow(0, row, length), options);
           if (a_HKK[span].defined()) maps[span].a_HKK = a_HKK[span].mT();
         });
         const std::vector<at::Tensor> states =
             ScanSpans(*chains, ScanOrder::kBackward, maps, shape, state_options, *group);
         return {call.gradients[0], StatesOf(OfSpans(states, begin), shape, state_options), d_later,
                 StatesOf(OfSpans(states, go_on), shape, state_options)};
       }},
      {begun.out_THV, begun.final_DHVK, gone_on.out_THV, gone_on.final_DHVK});
  return JoinRows({begin_, go_on_}, out);
}

}  // namespace moonring::mixers
