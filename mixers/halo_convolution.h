#ifndef MOONRING_MIXERS_HALO_CONVOLUTION_H_
#define MOONRING_MIXERS_HALO_CONVOLUTION_H_

// The short convolution over ranks: rows stay where they are, and before each of its spans a rank
// gets the W - 1 rows of the same document that came before (the halo), from whoever has them; also
// from several ranks, where spans are shorter. Backward their gradients go home.
//
// A document that goes on from another (generations.h) has its parent's last rows there.
//
// For any cut: a layout's borders are 64 tokens or more apart, so a halo of a few rows is always
// fewer bytes than sending all rows for channels would be.
// Cost: one exchange each way, at most (W - 1) C numbers for each span.

#include <memory>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/row_exchange.h"
#include "comm/sequence.h"
#include "mixers/planned_mixing.h"

namespace moonring::mixers {

class HaloConvolution {
 public:
  HaloConvolution(comm::SpansOfRanks spans, std::shared_ptr<comm::Communicator> group,
                  std::vector<comm::Parent> parents = {})
      : spans_(std::move(spans)), group_(std::move(group)), parents_(std::move(parents)) {}

  // [T_local, C]; differentiable and collective, as PlannedMixing::Convolve.
  at::Tensor operator()(const ConvolutionCall& call) const;

 private:
  comm::SpansOfRanks spans_;
  std::shared_ptr<comm::Communicator> group_;
  std::vector<comm::Parent> parents_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_HALO_CONVOLUTION_H_
