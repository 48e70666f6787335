#ifndef MOONRING_MIXERS_RULE_SPAN_H_
#define MOONRING_MIXERS_RULE_SPAN_H_

// A contiguous span of a packed stream as a map of the gated delta rule's state (delta_inputs.h):
//
//   S -> S A + B,   A = product over t, in order, of Diag(exp(g_t)) (I - beta_t k_t k_t^T)
//                   B = the state after the span that starts from zeros
//
// The effect of several spans is the composition of their maps in order:
//
//   (A_1, B_1) then (A_2, B_2) = (A_1 A_2, B_1 A_2 + B_2)
//
// So ranks that each have a span of the stream compute their maps in parallel, and a prefix scan
// gives each its initial state. In the backward the same maps propagate dS A^T + the span's own
// contribution from the last span to the first. (The own contribution is the gradient of
// `initial_DHVK` for a zero gradient of the final state.) There is no gradient through A: the
// span's own backward computes that of its inputs. Without the delta A is only the decay,
// Diag(exp(sum of g)), and is treated alike.
//
// Where a document starts in the span no earlier state passes: A = 0.
//
// Shapes: A [H, d_k, d_k], B [H, d_v, d_k], fp32 (fp64 for fp64): H d_k (d_k + d_v) numbers per
// span. Cost: a map costs as much as ScanChunks for d_v + d_k value channels without output; a
// composition 2 H d_k^2 (d_k + d_v) flops. A's rows are rows of a state that starts as the identity
// and is written no values, so one scan computes both.

#include <vector>

#include "mixers/rule/delta_inputs.h"

namespace moonring::mixers {

struct SpanMap {
  at::Tensor a_HKK, b_HVK;
};

// The map of a span whose documents have `lengths` tokens here. `continues`: its first document
// began before the span. Records no autograd graph; does not read `q_THK` and `initial_DHVK`.
SpanMap MapOfSpan(const DeltaInputs& inputs, const std::vector<int64_t>& lengths, bool continues,
                  const DeltaOptions& options);

// S A + B.
at::Tensor ApplySpan(const SpanMap& map, const at::Tensor& state_HVK);

SpanMap ComposeSpans(const SpanMap& earlier, const SpanMap& later);

// The gradient of the state before a span: dS A^T + own, from dS, the gradient of the state after
// it, and `own_HVK`, the contribution of the span's outputs.
at::Tensor SpanBackward(const SpanMap& map, const at::Tensor& gradient_HVK,
                        const at::Tensor& own_HVK);

// The own contribution of a span of one document, [H, d_v, d_k]: from the gradient of its outputs
// and, where the document ends in the span and others continue it, from that of its final state
// (undefined: none does). `v` is read only for its shape. Records no autograd graph. Cost: a third
// of a backward.
at::Tensor FirstStateGradient(const DeltaInputs& inputs, const at::Tensor& d_out_THV,
                              const DeltaOptions& options, const at::Tensor& d_last_HVK = {});

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_SPAN_H_
