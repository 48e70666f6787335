#ifndef MOONRING_COMM_BIN_EXCHANGE_H_
#define MOONRING_COMM_BIN_EXCHANGE_H_

// Exchange of rows by bin: sends each row to the rank that has its bin, and back. In a mixture of
// experts the rows are tokens and the bins are experts.
//
// E bins are divided over P ranks; each rank has a contiguous range of them, possibly empty
// (BinParts). A rank's N rows are sorted by bin; n_pe of rank p's rows belong to bin e. The rows
// that a rank receives are also sorted by bin, then by sending rank, then in the sender's order:
//
//   Meet       all ranks exchange how many rows each sends to each bin
//   ToBins     [N, ...] -> [M, ...],  M = sum over ranks p and this rank's bins e of n_pe
//   FromBins   [M, ...] -> [N, ...],  each row back to its original position
//
// ToBins and FromBins are inverses and adjoints of each other, so the backward of each is the
// other. No row is dropped or padded, whatever the load. The order depends only on the order of the
// ranks, so equal runs give equal bits.
//
// Collective, also for a rank without rows or bins: if one rank runs the backward of ToBins or
// FromBins, all must. Cost of Meet: one AllToAll of 8 bytes for each bin of another rank. Cost of
// ToBins: one AllToAll of the rows whose bins are on other ranks; of FromBins: one AllToAll of the
// rows that came from other ranks. Each takes P - 1 steps. A group of one rank does nothing.
// Memory: one more copy of the rows sent and received, during the call.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace moonring::comm {

// Borders of the ranks' bin ranges: P + 1 numbers from 0 to `bins`. The ranges are as even as
// possible; the first ranks have one bin more.
std::vector<int64_t> BinParts(int64_t bins, int ranks);

class BinExchange {
 public:
  // Rank r has bins [border[r], border[r + 1]). Throws if `border` does not fit the group.
  BinExchange(std::shared_ptr<Communicator> group, std::vector<int64_t> border);

  int64_t bins() const { return border_.back(); }
  int64_t first() const { return border_[group_->rank()]; }  // this rank's first bin
  int64_t count() const { return border_[group_->rank() + 1] - first(); }
  bool alone() const { return group_->size() == 1; }
  const std::vector<int64_t>& border() const { return border_; }
  const std::shared_ptr<Communicator>& group() const { return group_; }

  // The routing of one set of rows between the ranks.
  struct Meeting {
    std::vector<int64_t> begin;                    // offsets of this rank's bins in the M rows
    std::vector<int64_t> send_rows, receive_rows;  // for each rank
    // int64 [M]: for the m-th row in the order of bins, its index among the received rows.
    at::Tensor arrived_M;
    at::Tensor leaving_M;  // the inverse permutation of arrived_M
    std::shared_ptr<Communicator> group;
  };

  // Exchanges row counts with the other ranks. Bin e has rows [begin[e], begin[e + 1]) of this
  // rank's rows; `begin` has E + 1 numbers. `device` is the rows' device. Throws StatusError if
  // communication fails.
  Meeting Meet(const std::vector<int64_t>& begin, const at::Device& device) const;

 private:
  std::shared_ptr<Communicator> group_;
  std::vector<int64_t> border_;
};

// Differentiable. Throw StatusError if communication fails, and c10::Error if shapes do not fit.
at::Tensor ToBins(const at::Tensor& rows_ND, const BinExchange::Meeting& meeting);
at::Tensor FromBins(const at::Tensor& rows_MD, const BinExchange::Meeting& meeting);

// Steps and bytes sent by one rank, as Communicator counts them.
struct BinTraffic {
  int64_t steps = 0, bytes = 0;
};
// Predicts the traffic of ToBins and FromBins, and of Meet if `meets`, for rows of `row_bytes`
// bytes; rows_PE[p][e] is n_pe. A backward costs ToBins and FromBins once more.
BinTraffic CountBinTraffic(const std::vector<std::vector<int64_t>>& rows_PE,
                           const std::vector<int64_t>& border, int rank, int64_t row_bytes,
                           bool meets);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_BIN_EXCHANGE_H_
