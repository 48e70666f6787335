#ifndef MOONRING_MIXERS_SPANS_MIXING_H_
#define MOONRING_MIXERS_SPANS_MIXING_H_

// PlannedMixing over ranks by spans: rows stay where the layout has them, and only states travel.
//
//   forward   the convolution by halos (halo_convolution.h); spans that begin their document run at
//             once, and their last states are known; each other span of a cut document that goes on
//             makes its map (A, B); a scan over the spans (span_scan.h) gives each its first state;
//             then the others run together (delta_rule.h)
//   backward  each span makes its part of the gradient of its first state from its own outputs; the
//             scan from the last span to the first gives each the gradient of its last state; then
//             the rule's backward runs once. No gradient goes through A: that of a span's inputs by
//             way of its last state is the rule's own.
//
// Where documents go on from others (generations.h) this is done for one generation after another;
// a document that is a parent has a gradient of its last state, from which the scan backward
// begins.
//
// Any layout: a zigzag's rank has several spans of a document. Where no document is cut nothing
// travels at all, and it is local_mixing.h.
//
// Cost: arithmetic up to about twice that of one rank, over P (a map costs as much as a forward,
// the part of the first state's gradient a third of a backward; spans that begin a document make
// neither, the last ones no map). Sent: span_scan.h's maps, whatever the number of tokens. Kept for
// backward beside the rule's own: A of each span that is neither first nor last, and a second
// handle of q, k, v, g and beta of all but the first spans.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "mixers/generations.h"
#include "mixers/halo_convolution.h"
#include "mixers/planned_mixing.h"
#include "mixers/span_rows.h"
#include "mixers/span_scan.h"

namespace moonring::mixers {

class SpansMixing : public PlannedMixing {
 public:
  SpansMixing(std::shared_ptr<const comm::Layout> layout, std::shared_ptr<comm::Communicator> group,
              const std::vector<comm::Parent>& parents = {});

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override { return convolution_(call); }

 private:
  // A generation's spans on this rank.
  struct Spans {
    std::vector<int64_t> lengths;
    std::shared_ptr<const SpanChains> chains;
    SpanRows begin, go_on;  // spans that begin their document, and the others
    // Those that end theirs, by their places among the first and then the others.
    at::Tensor ends;
  };
  Spans SpansOf(size_t generation) const;
  DeltaResult Rule(const Spans& spans, const DeltaInputs& inputs,
                   const DeltaOptions& options) const;

  std::shared_ptr<comm::Communicator> group_;
  Generations generations_;
  std::vector<Spans> spans_;  // by generation
  HaloConvolution convolution_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_SPANS_MIXING_H_
