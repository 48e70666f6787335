#ifndef MOONRING_MIXERS_OVER_RANKS_HALO_CONVOLUTION_H_
#define MOONRING_MIXERS_OVER_RANKS_HALO_CONVOLUTION_H_

// The short convolution (short_convolution.h) over ranks. Each rank computes the rows that it has.
// For each of its spans (contiguous runs of a document's tokens) it receives the preceding W - 1
// rows (W: the number of taps) of the same document, called the halo, from the rank or ranks that
// have them. In the backward the gradients of these rows are sent back.
//
// If a document continues a parent (a shared prefix that is a document of its own, generations.h),
// the halo of its first span has the parent's last rows.
//
// Works for any layout: a document is cut only at multiples of at least 64 tokens, so halos of a
// few rows are always fewer bytes than an exchange of all rows by channels. Cost: one exchange each
// way, at most (W - 1) C numbers for each span (C: channels).

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

  // Returns [T_local, C]; differentiable and collective, as PlannedMixing::Convolve.
  at::Tensor operator()(const ConvolutionCall& call) const;

 private:
  comm::SpansOfRanks spans_;
  std::shared_ptr<comm::Communicator> group_;
  std::vector<comm::Parent> parents_;
};

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_OVER_RANKS_HALO_CONVOLUTION_H_
