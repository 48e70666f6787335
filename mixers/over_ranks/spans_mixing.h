#ifndef MOONRING_MIXERS_OVER_RANKS_SPANS_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_SPANS_MIXING_H_

// PlannedMixing (planned_mixing.h) over P ranks by spans: each rank computes its own rows, which
// form spans (contiguous runs of a document's tokens). Only recurrent states are communicated, and
// the maps S -> S A + B by which spans change a state S (span.h).
//
//   forward   1. the convolution by halos (halo_convolution.h); 2. spans that begin their document
//             are computed, with their final states; 3. the map (A, B) of each other span is
//             computed, unless the span is its document's last; 4. a scan over the maps
//             (span_scan.h) gives each other span its initial state; 5. the other spans are
//             computed together (delta_rule.h)
//   backward  each span computes its contribution to the gradient of its initial state from its own
//             outputs; the scan from the last span to the first gives each the gradient of its
//             final state; then the rule's backward runs once. No gradient goes through A: the
//             rule's own backward computes the inputs' gradient by way of the span's final state
//
// Where documents continue a parent (a shared prefix), parents are computed before the documents
// that continue them, one generation after another (the documents with equally many ancestors,
// generations.h). In the backward a parent's final state has a gradient, with which the scan over
// the parent's spans begins.
//
// Works for any layout: with zigzag a rank has several spans of a document. If no document is cut,
// nothing is communicated, and the computation is that of local_mixing.h.
//
// Cost: up to about twice the arithmetic of one rank, divided by P. A map costs as much as a
// forward, the contribution to the initial state's gradient a third of a backward; spans that begin
// a document need neither of the two, and spans that end one need no map. The bytes sent are those
// of the maps (span_scan.h), for any number of tokens. Saved for the backward in addition to the
// rule's tensors: A of each span that is neither first nor last, and references to q, k, v, g and
// beta of all but the first spans.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "mixers/over_ranks/halo_convolution.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "mixers/rule/generations.h"
#include "mixers/rule/span_rows.h"
#include "mixers/rule/span_scan.h"

namespace moonring::mixers {

class SpansMixing : public PlannedMixing {
 public:
  SpansMixing(std::shared_ptr<const comm::Layout> layout, std::shared_ptr<comm::Communicator> group,
              const std::vector<comm::Parent>& parents = {});

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override { return convolution_(call); }

 private:
  // This rank's spans (contiguous runs of a document's tokens) of the documents of one generation.
  struct Spans {
    std::vector<int64_t> lengths;
    std::shared_ptr<const SpanChains> chains;
    SpanRows begin, go_on;  // spans that begin their document, and the others
    // The spans that end their document, as indices into the concatenation of `begin` and `go_on`.
    at::Tensor ends;
  };
  Spans SpansOf(size_t generation) const;
  DeltaResult Rule(const Spans& spans, const DeltaInputs& inputs,
                   const DeltaOptions& options) const;

  std::shared_ptr<comm::Communicator> group_;
  Generations generations_;
  std::vector<Spans> spans_;  // one entry per generation
  HaloConvolution convolution_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_SPANS_MIXING_H_
