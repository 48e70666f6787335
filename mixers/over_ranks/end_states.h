#ifndef MOONRING_MIXERS_OVER_RANKS_END_STATES_H_
#define MOONRING_MIXERS_OVER_RANKS_END_STATES_H_

// PlannedMixing (planned_mixing.h) over ranks that also gives every rank the state at each
// document's end: the last W - 1 input rows of the convolution (W: its taps), and the state of the
// delta rule. Decoding continues from these states (batch_mixing.h).
//
// Outputs are those of the wrapped mixing object. In addition, each rank computes for each of its
// spans (contiguous runs of a document's tokens) the map from the state before the span to the
// state after it (span.h). All ranks gather all maps and compose them in the documents' order. The
// last W - 1 rows of each document are sent to all ranks. All this is independent of the wrapped
// object's strategy.
//
// Extra cost: the convolution of this rank's rows once more, the maps (each costs as much as a scan
// for d_v + d_k value channels), and an AllGather of H d_k (d_k + d_v) numbers per span (H value
// heads; d_k and d_v channels of a key and a value). It is used once per prompt and records no
// autograd graph.

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
  at::Tensor last_DRC;    // last R = W - 1 input rows of the convolution, zeros before a document's
                          // first token; undefined: no convolution
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
