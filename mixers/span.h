#ifndef MOONRING_MIXERS_SPAN_H_
#define MOONRING_MIXERS_SPAN_H_

// A contiguous span of a packed stream as a map of the gated delta rule's state (delta_inputs.h):
//
//   S -> S A + B,   A = product over t, in order, of Diag(exp(g_t)) (I - beta_t k_t k_t^T)
//                   B = the state that the span makes of zeros
//
// and what a later span sees of the spans before it is the product of their maps in order:
//
//   (A_1, B_1) then (A_2, B_2) = (A_1 A_2, B_1 A_2 + B_2)
//
// so ranks that each have a span of the stream make their maps at once and a prefix scan gives each
// its first state; backward the same maps take dS A^T + the span's own part from the last span to
// the first (the gradient of `initial_DHVK` where that of the last state is zero), with no gradient
// through A: the span's own backward makes those of its inputs.
// Without the delta A is the decay alone, Diag(exp(sum of g)), and travels as others do.
//
// Where a document starts in the span no earlier state passes: A = 0.
// Shapes: A [H, d_k, d_k], B [H, d_v, d_k], fp32 (fp64 for fp64): H d_k (d_k + d_v) numbers a span.
// Cost: the map that of ScanChunks for d_v + d_k value channels and no output; a composition 2 H
// d_k^2 (d_k + d_v) flop. A's rows are rows of a state that starts as the identity and is written
// no values, so both come of one scan.

#include <vector>

#include "mixers/delta_inputs.h"

namespace moonring::mixers {

struct SpanMap {
  at::Tensor a_HKK, b_HVK;
};

// The map of a span whose documents have `lengths` tokens here. `continues`: its first document
// began before it. Records no graph; `q_THK` is not read, nor is `initial_DHVK`.
SpanMap MapOfSpan(const DeltaInputs& inputs, const std::vector<int64_t>& lengths, bool continues,
                  const DeltaOptions& options);

// S A + B.
at::Tensor ApplySpan(const SpanMap& map, const at::Tensor& state_HVK);

SpanMap ComposeSpans(const SpanMap& earlier, const SpanMap& later);

// The gradient of the state before a span from that of the state after it and `own_HVK`, the part
// that the span's outputs give: dS A^T + own.
at::Tensor SpanBackward(const SpanMap& map, const at::Tensor& gradient_HVK,
                        const at::Tensor& own_HVK);

// That own part, of a span of one document: [H, d_v, d_k] from the gradient of its outputs, and
// where the document ends here from that of its last state, if others go on from it (undefined:
// none does). `v` is read for its shape alone. Records no graph. Cost: a third of a backward.
at::Tensor FirstStateGradient(const DeltaInputs& inputs, const at::Tensor& d_out_THV,
                              const DeltaOptions& options, const at::Tensor& d_last_HVK = {});

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_SPAN_H_
