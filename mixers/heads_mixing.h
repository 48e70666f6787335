#ifndef MOONRING_MIXERS_HEADS_MIXING_H_
#define MOONRING_MIXERS_HEADS_MIXING_H_

// PlannedMixing over ranks by heads: an exchange gives each rank all rows of the stream with its
// heads' channels (head_share.h; x, g and beta in one message), there it mixes as one rank does,
// and an exchange brings the outputs home (DeepSpeed Ulysses, arXiv:2309.14509).
//
// Taps, their bias and the skip are by channel or head: a rank uses those of its own, and its part
// of their gradient is zero elsewhere; the parts of all ranks add up to the whole, also where a key
// head is on several. The convolution alone goes by halos (halo_convolution.h).
//
// Cost, P ranks, T tokens: 2 exchanges each way of P - 1 steps; sent per rank about (P - 1) / P^2 T
// (C e + H (4 + 4) + H d_v e) bytes forward and as many backward, some more where key heads are
// shared. Arithmetic: that of one rank, over P. Outputs are those of
// one rank to the bit (on a CPU); gradients up to rounding.

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/row_exchange.h"
#include "comm/sequence.h"
#include "mixers/halo_convolution.h"
#include "mixers/local_mixing.h"
#include "mixers/planned_mixing.h"

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
  LocalMixing whole_;  // of the whole stream
  HaloConvolution convolution_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_HEADS_MIXING_H_
