#ifndef MOONRING_MIXERS_RULE_SPAN_H_
#define MOONRING_MIXERS_RULE_SPAN_H_

// A span (a contiguous run of tokens of a packed stream) changes the gated delta rule's state
// (delta_inputs.h) from S to S A + B. The pair (A, B) is called the span's map:
//
//   S -> S A + B,   A = product over t, in order, of Diag(exp(g_t)) (I - beta_t k_t k_t^T)
//                   B = the state after the span that starts from zeros
//
// The effect of consecutive spans is the composition of their maps in order:
//
//   (A_1, B_1) then (A_2, B_2) = (A_1 A_2, B_1 A_2 + B_2)
//
// So ranks that each have a span of the stream compute their maps in parallel, and a prefix scan
// over the maps gives each span its initial state. In the backward let dS be the gradient of the
// state after a span. The gradient of the state before it is dS A^T + the span's own contribution,
// computed from the last span to the first. (The own contribution is the gradient of `initial_DHVK`
// if the final state's gradient is zero.) No gradient flows through A: the delta rule's backward on
// the span computes the gradients of the span's inputs. With DeltaOptions::delta off, A is only the
// decay Diag(exp(sum of g)).
//
// If a document starts in the span, the state before the span has no effect: A = 0.
//
// Shapes, for H value heads, keys of d_k and values of d_v channels: A [H, d_k, d_k], B [H, d_v,
// d_k], fp32 (fp64 for fp64): H d_k (d_k + d_v) numbers per span. Cost: a map costs as much as
// ScanChunks (delta_chunks.h) for d_v + d_k value channels without output; a composition 2 H d_k^2
// (d_k + d_v) flops. A is a state that starts as the identity matrix and to which v = 0 is written,
// so one scan computes A and B together.

#include <vector>

#include "mixers/rule/delta_inputs.h"

namespace moonring::mixers {

struct SpanMap {
  at::Tensor a_HKK, b_HVK;
};

// The map of a span. `lengths`: tokens of each document in the span. `continues`: whether the
// span's first document began before the span. Records no autograd graph; does not read `q_THK` and
// `initial_DHVK`.
SpanMap MapOfSpan(const DeltaInputs& inputs, const std::vector<int64_t>& lengths, bool continues,
                  const DeltaOptions& options);

// S A + B.
at::Tensor ApplySpan(const SpanMap& map, const at::Tensor& state_HVK);

SpanMap ComposeSpans(const SpanMap& earlier, const SpanMap& later);

// The gradient of the state before a span: dS A^T + own, where dS (`gradient_HVK`) is the gradient
// of the state after the span, and own (`own_HVK`) is the contribution of the span's outputs.
at::Tensor SpanBackward(const SpanMap& map, const at::Tensor& gradient_HVK,
                        const at::Tensor& own_HVK);

// The own contribution of a span of one document, [H, d_v, d_k]: from the gradient of its outputs
// and, if the document ends in the span and other documents continue it, from the gradient of its
// final state (`d_last_HVK`; undefined: no document continues it). `v` is read only for its shape.
// Records no autograd graph. Cost: a third of a backward.
at::Tensor FirstStateGradient(const DeltaInputs& inputs, const at::Tensor& d_out_THV,
                              const DeltaOptions& options, const at::Tensor& d_last_HVK = {});

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_SPAN_H_
