#ifndef MOONRING_MIXERS_OVER_RANKS_HEADS_MIXING_H_
#define MOONRING_MIXERS_OVER_RANKS_HEADS_MIXING_H_

// PlannedMixing (planned_mixing.h) over ranks, by heads. An exchange gives each rank all rows of
// the stream for the channels of its heads (head_share.h; x, g and beta in one message). The rank
// computes these as a single rank would, and the inverse exchange returns the outputs (DeepSpeed
// Ulysses, arXiv:2309.14509).
//
// The convolution's taps and bias are per channel, and the skip is per head: a rank uses those of
// its own heads, and its gradients of the others are zero. The sum of the ranks' gradients is the
// whole gradient, even where a key head is on several ranks. Convolve, a convolution without a
// delta rule, sends halos instead (halo_convolution.h).
//
// Cost for P ranks and T tokens: 2 exchanges each way of P - 1 steps; sent per rank about (P - 1) /
// P^2 T (C e + H (4 + 4) + H d_v e) bytes (C channels of the convolution, H value heads of d_v
// channels, e bytes of an element) forward and as many backward, somewhat more where key heads are
// shared. Arithmetic: that of one rank, divided by P. Outputs are bit-equal to those of one rank
// (on a CPU); gradients are equal up to rounding.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/row_exchange.h"
#include "comm/sequence.h"
#include "mixers/over_ranks/halo_convolution.h"
#include "mixers/over_ranks/local_mixing.h"
#include "mixers/over_ranks/planned_mixing.h"

namespace moonring::mixers {

class HeadsMixing : public PlannedMixing {
 public:
  HeadsMixing(std::shared_ptr<const comm::Layout> layout, std::shared_ptr<comm::Communicator> group,
              const std::vector<comm::Parent>& parents = {});

  at::Tensor Delta(const DeltaCall& call) override;
  at::Tensor Convolve(const ConvolutionCall& call) override { return convolution_(call); }

 private:
  std::shared_ptr<comm::Communicator> group_;
  std::shared_ptr<const comm::RowMap> to_stream_;
  LocalMixing whole_;  // mixes the whole stream
  HaloConvolution convolution_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_HEADS_MIXING_H_
