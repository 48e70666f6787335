#ifndef MOONRING_MIXERS_OVER_RANKS_END_STATES_H_
#define MOONRING_MIXERS_OVER_RANKS_END_STATES_H_

// PlannedMixing over ranks that also gives every rank the state at each document's end: the last W
// - 1 rows before the convolution and the rule's state. Decoding continues from these
// (batch_mixing.h).
//
// Outputs are those of the wrapped mixing. In addition, each rank computes the maps of its own
// spans (span.h), all ranks gather all maps and compose them in the documents' order; W - 1 rows of
// each document are sent to all ranks. This is independent of the wrapped mixing's strategy.
//
// Extra cost: the convolution of this rank's rows once more, the maps (that of a scan for d_v + d_k
// value channels), and an AllGather of H d_k (d_k + d_v) numbers per span. Used once per prompt.
// Records no autograd graph.

#include <functional>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "mixers/over_ranks/planned_mixing.h"

namespace moonring::mixers {

// States at the ends of all documents of the stream, the same on every rank.
struct DocumentEnds {
  at::Tensor last_DRC;    // R = W - 1, zeros before a document's first token; undefined: no
                          // convolution
  at::Tensor state_DHVK;  // undefined: no delta rule
};

class EndStates : public PlannedMixing {
 public:
  using Sink = std::function<void(int64_t layer, const DocumentEnds& ends)>;

  // `mixing` must have been planned for this layout and group.
  EndStates(std::shared_ptr<PlannedMixing> mixing, std::shared_ptr<const comm::Layout> layout,
            std::shared_ptr<comm::Communicator> group, Sink sink)
      : mixing_(std::move(mixing)),
        layout_(std::move(layout)),
        group_(std::move(group)),
        sink_(std::move(sink)) {}

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override;

 private:
  at::Tensor LastRows(const ConvolutionCall& call) const;
  at::Tensor LastStates(const DeltaCall& call) const;

  std::shared_ptr<PlannedMixing> mixing_;
  std::shared_ptr<const comm::Layout> layout_;
  std::shared_ptr<comm::Communicator> group_;
  const Sink sink_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_END_STATES_H_
