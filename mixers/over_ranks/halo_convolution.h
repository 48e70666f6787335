#ifndef MOONRING_MIXERS_OVER_RANKS_HALO_CONVOLUTION_H_
#define MOONRING_MIXERS_OVER_RANKS_HALO_CONVOLUTION_H_

// The short convolution over ranks. Rows stay on their rank. Before each of its spans a rank
// receives the preceding W - 1 rows of the same document (the halo) from the ranks that have them;
// these may be several, where spans are shorter. In the backward their gradients are sent back.
//
// If a document continues another one (generations.h), its halo has its parent's last rows.
//
// Works for any layout: span boundaries are at least 64 tokens apart, so a halo of a few rows is
// always fewer bytes than an exchange of all rows by channels. Cost: one exchange each way, at most
// (W - 1) C numbers for each span.

#include <memory>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/row_exchange.h"
#include "comm/sequence.h"
#include "mixers/over_ranks/planned_mixing.h"

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

#endif  // MOONRING_MIXERS_OVER_RANKS_HALO_CONVOLUTION_H_
