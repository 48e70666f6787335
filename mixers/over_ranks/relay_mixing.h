#ifndef MOONRING_MIXERS_OVER_RANKS_RELAY_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_RELAY_MIXING_H_

// PlannedMixing over ranks by relay: rows stay where the layout has them, and the state of a
// document that is cut over ranks is passed from span to span sequentially. Heads are processed in
// groups, one after another, so that a rank works on a group while the next rank works on the
// previous group (relay_schedule.h): pipelining over heads, as GPipe does over micro-batches.
//
//   forward   the convolution by halos (halo_convolution.h); in each round a span receives a state,
//             runs the rule on its rows for one group of heads, and sends its final state on
//   backward  in reverse, with gradients of states
//
// Works for any layout: with zigzag a rank has several spans of a document, and the chain passes it
// several times. Where documents continue others (generations.h), this is done for one generation
// after another.
//
// Documents that are whole on a rank run there at once, while a rank that is not the first of a
// chain waits for its first state. Where no document is cut nothing is communicated.
//
// Cost: the arithmetic of one rank divided by P, extended by the rounds in which the pipeline
// fills: (groups + places - 1) / groups times as long, where places is the number of spans of a
// document. Sent: H d_k d_v numbers for each span except a document's last one, each way, for any
// number of tokens: the fewest bytes of all strategies, in the most steps. Saved for the backward:
// as in delta_rule.h.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/sequence.h"
#include "mixers/over_ranks/halo_convolution.h"
#include "mixers/over_ranks/planned_mixing.h"
#include "mixers/rule/generations.h"

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

#endif  // MOONRING_MIXERS_OVER_RANKS_RELAY_MIXING_H_
