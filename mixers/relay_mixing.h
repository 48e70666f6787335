#ifndef MOONRING_MIXERS_RELAY_MIXING_H_
#define MOONRING_MIXERS_RELAY_MIXING_H_

// PlannedMixing over ranks by relay: rows stay where the layout has them, and the state of a cut
// document is handed on from span to span in turn. Heads go in groups, one after another, so that
// a rank works on a group while the next rank works on the group before (relay_schedule.h):
// pipelining over heads, as GPipe's over micro-batches.
//
//   forward   the convolution by halos (halo_convolution.h); in each round a span takes the state
//             that came, runs the rule on its rows of a group's heads, and gives its last state on
//   backward  the other way, with gradients of states
//
// Any layout: a zigzag's rank has several spans of a document, and the chain comes by it again.
// Where documents go on from others (generations.h) this is done for one generation after another.
//
// Documents that are whole on a rank run there at once, while nothing has come to it yet if it is
// not the first of a chain. Where no document is cut nothing travels at all.
//
// Cost: the arithmetic of one rank, over P, and the rounds in which the pipe fills: (groups +
// places - 1) / groups times as long. Sent: H d_k d_v numbers for each span but a document's last,
// each way, whatever the number of tokens: the fewest bytes of all strategies, in the most steps.
// Kept for backward: as delta_rule.h.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "mixers/generations.h"
#include "mixers/halo_convolution.h"
#include "mixers/planned_mixing.h"

namespace moonring::mixers {

class RelayMixing : public PlannedMixing {
 public:
  RelayMixing(std::shared_ptr<const comm::Layout> layout, std::shared_ptr<comm::Communicator> group,
              const std::vector<comm::Parent>& parents = {});

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override { return convolution_(call); }

 private:
  class Relay;
  std::shared_ptr<comm::Communicator> group_;
  Generations generations_;
  std::vector<std::shared_ptr<const Relay>> relays_;  // by generation
  HaloConvolution convolution_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RELAY_MIXING_H_
