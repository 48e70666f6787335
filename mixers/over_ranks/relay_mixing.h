#ifndef MOONRING_MIXERS_OVER_RANKS_RELAY_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_RELAY_MIXING_H_

// PlannedMixing (planned_mixing.h) over ranks by relay: each rank computes its own rows. A document
// that is cut over ranks consists of spans, and its recurrent state is passed sequentially from the
// rank of one span to the rank of the next. Heads are processed in groups, one after another: while
// a rank computes one group of heads, the next rank computes the previous group (relay_schedule.h).
// This is a pipeline over heads, as GPipe's is over micro-batches.
//
//   forward   the convolution by halos (halo_convolution.h); in each round a span receives a state,
//             runs the rule on its rows for one group of heads, and sends its final state to the
//             next span
//   backward  in reverse, with gradients of states
//
// Works for any layout: with zigzag a rank has several spans of a document, so the state passes
// through this rank several times. Where documents continue a parent (a shared prefix), parents are
// computed before the documents that continue them, one generation after another (the documents
// with equally many ancestors, generations.h).
//
// Documents that are whole on one rank are computed there at any time, for example while the rank
// waits for the first state of a cut document. If no document is cut, nothing is communicated.
//
// Cost for P ranks: 1 / P of the arithmetic of one rank; the time is (groups + spans - 1) / groups
// times as long, since the pipeline must fill (groups: number of head groups, spans: number of a
// document's spans). Each span except a document's last one sends its state, H d_k d_v numbers (H
// value heads; d_k and d_v channels of a key and a value), each way, for any number of tokens: the
// fewest bytes of all strategies, in the most steps. Saved for the backward: as in delta_rule.h.

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
  std::vector<std::shared_ptr<const Relay>> relays_;  // one object per generation
  HaloConvolution convolution_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_RELAY_MIXING_H_
