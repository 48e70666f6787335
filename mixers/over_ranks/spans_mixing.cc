#include "mixers/over_ranks/spans_mixing.h"

#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "base/autograd/custom_function.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/rule/delta_rule.h"
#include "mixers/rule/span.h"

namespace moonring::mixers {
namespace {

DeltaInputs RowsOfSpan(const DeltaInputs& inputs, int64_t begin, int64_t rows) {
  const auto of = [&](const at::Tensor& x) { return x.narrow(0, begin, rows); };
  return {of(inputs.q_THK), of(inputs.k_THK),   of(inputs.v_THV),
          of(inputs.g),     of(inputs.beta_TH), {}};
}

// Stacks one state for each span into a tensor. Undefined states become zeros.
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

// Calls call(span, number of the span's rows, index of its first row among all rows of `rows`).
template <typename Call>
void ForEachSpan(const SpanRows& rows, const Call& call) {
  int64_t row = 0;
  for (size_t i = 0; i < rows.spans().size(); row += rows.lengths()[i++])
    call(rows.spans()[i], rows.lengths()[i], row);
}

}  // namespace

SpansMixing::SpansMixing(std::shared_ptr<const comm::Layout> layout,
                         std::shared_ptr<comm::Communicator> group,
                         const std::vector<comm::Parent>& parents)
    : group_(std::move(group)),
      generations_(*layout, parents, group_->rank()),
      convolution_(comm::SpansOf(*layout), group_, parents) {
  for (size_t g = 0; g < generations_.size(); ++g) spans_.push_back(SpansOf(g));
}

SpansMixing::Spans SpansMixing::SpansOf(size_t generation) const {
  const std::vector<int64_t>& lengths = generations_.rows(generation).lengths();
  auto chains = std::make_shared<const SpanChains>(generations_.spans(generation), group_->rank());
  SpanRows begin(lengths, SpansThat(*chains, lengths.size(), false));
  SpanRows go_on(lengths, SpansThat(*chains, lengths.size(), true));
  std::vector<int64_t> place(lengths.size()), ends;
  int64_t next = 0;
  for (const SpanRows* rows : {&begin, &go_on})
    for (const int64_t span : rows->spans()) place[span] = next++;
  for (size_t span = 0; span < lengths.size(); ++span)
    if (!chains->goes_on(static_cast<int64_t>(span))) ends.push_back(place[span]);
  return {lengths, std::move(chains), std::move(begin), std::move(go_on),
          at::tensor(ends, at::kLong)};
}

at::Tensor SpansMixing::Delta(const DeltaCall& call) {
  const at::Tensor qkv_TC = call.taps_CW.defined() ? Convolve(ConvolutionOf(call)) : call.x_TC;
  const DeltaInputs inputs = InputsOf(call, qkv_TC);
  const at::Tensor out_THV =
      generations_.Run(inputs, group_, [&](size_t generation, const DeltaInputs& own) {
        return Rule(spans_[generation], own, call.options);
      });
  return WithSkip(out_THV, inputs.v_THV, call.skip_H);
}

DeltaResult SpansMixing::Rule(const Spans& spans, const DeltaInputs& inputs,
                              const DeltaOptions& options) const {
  const std::shared_ptr<const SpanChains>& chains = spans.chains;
  if (chains->chains().empty()) return GatedDeltaRule(inputs, spans.lengths, options);
  DeltaInputs all = inputs;
  all.initial_DHVK = at::Tensor();
  CheckDeltaInputs(all, spans.lengths);
  const at::Tensor& v = inputs.v_THV;
  const std::vector<int64_t> shape = {v.size(1), v.size(2), inputs.k_THK.size(2)};
  const at::TensorOptions state_options = v.options().dtype(StateDtype(inputs));
  DeltaInputs first = spans.begin.Of(inputs), later = spans.go_on.Of(inputs);
  first.initial_DHVK = inputs.initial_DHVK;
  const DeltaResult begun = GatedDeltaRule(first, spans.begin.lengths(), options);
  std::vector<SpanMap> maps(spans.lengths.size());
  std::vector<at::Tensor> a_HKK(spans.lengths.size());
  {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < spans.begin.spans().size(); ++i)
      if (chains->goes_on(spans.begin.spans()[i]))
        maps[spans.begin.spans()[i]].b_HVK = begun.final_DHVK.detach()[static_cast<int64_t>(i)];
    ForEachSpan(spans.go_on, [&](int64_t span, int64_t length, int64_t row) {
      if (!chains->goes_on(span)) return;
      maps[span] = MapOfSpan(RowsOfSpan(later, row, length), {length}, true, options);
      a_HKK[span] = maps[span].a_HKK;
    });
    later.initial_DHVK = StatesOf(
        OfSpans(ScanSpans(*chains, ScanOrder::kForward, maps, shape, state_options, *group_),
                spans.go_on),
        shape, state_options);
  }
  const DeltaResult gone_on = GatedDeltaRule(later, spans.go_on.lengths(), options);
  const at::Tensor ends = spans.ends.to(v.device());
  // A node whose forward returns the states unchanged. Its backward computes the gradients of the
  // spans' final states, from later spans and from documents that continue these documents.
  const base::Tensors out = base::Apply(
      {.name = "states of spans",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         *saved = {later.q_THK, later.k_THK, later.v_THV, later.g, later.beta_TH};
         return {begun.out_THV.detach(), gone_on.out_THV.detach(),
                 at::cat({begun.final_DHVK, gone_on.final_DHVK}).index_select(0, ends)};
       },
       .backward = [begin = spans.begin, go_on = spans.go_on, chains, group = group_, a_HKK, ends,
                    shape, state_options, options](base::BackwardCall& call) -> base::Tensors {
         const base::Tensors& saved = call.saved;
         const DeltaInputs later{saved[0], saved[1], saved[2], saved[3], saved[4], {}};
         const auto or_zeros = [&](const at::Tensor& gradient, int64_t rows) {
           return gradient.defined() ? gradient
                                     : at::zeros({rows, shape[0], shape[1]}, later.v_THV.options());
         };
         const at::Tensor d_begun = or_zeros(call.gradients[0], begin.rows()),
                          d_later = or_zeros(call.gradients[1], go_on.rows());
         // The gradients of the final states: first those of the spans that begin a document, then
         // those of the other spans.
         const auto begins = static_cast<int64_t>(begin.spans().size()),
                    others = static_cast<int64_t>(go_on.spans().size());
         const at::Tensor d_last =
             at::zeros({begins + others, shape[0], shape[1], shape[2]}, state_options);
         if (call.gradients[2].defined()) d_last.index_copy_(0, ends, call.gradients[2]);
         std::vector<SpanMap> maps(a_HKK.size());
         int64_t i = begins;
         ForEachSpan(go_on, [&](int64_t span, int64_t length, int64_t row) {
           maps[span].b_HVK =
               FirstStateGradient(RowsOfSpan(later, row, length), d_later.narrow(0, row, length),
                                  options, d_last[i++]);
           if (a_HKK[span].defined()) maps[span].a_HKK = a_HKK[span].mT();
         });
         const std::vector<at::Tensor> states =
             ScanSpans(*chains, ScanOrder::kBackward, maps, shape, state_options, *group);
         return {
             d_begun,
             StatesOf(OfSpans(states, begin), shape, state_options) + d_last.narrow(0, 0, begins),
             d_later,
             StatesOf(OfSpans(states, go_on), shape, state_options) +
                 d_last.narrow(0, begins, others)};
       },
       .undefined_gradients = true},
      {begun.out_THV, begun.final_DHVK, gone_on.out_THV, gone_on.final_DHVK});
  return {JoinRows({spans.begin, spans.go_on}, {out[0], out[1]}), out[2]};
}

}  // namespace moonring::mixers
