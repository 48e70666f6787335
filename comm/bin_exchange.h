#ifndef MOONRING_COMM_BIN_EXCHANGE_H_
#define MOONRING_COMM_BIN_EXCHANGE_H_

// Rows to the rank that has their bin, and back: a mixture's tokens to their experts, say.
//
// Of E bins each of P ranks has some side by side, more or fewer or none (BinParts). A rank's N
// rows stand by bin; it has n_pe of bin e. What comes to a rank stands by bin too, and within a bin
// by the rank that sent it, in that rank's order:
//
//   Meet       all learn how many rows come from whom
//   ToBins     [N, ...] -> [M, ...],  M = sum over ranks p and own bins e of n_pe
//   FromBins   [M, ...] -> [N, ...],  each row back to its place
//
// Each of the two is the other's inverse and its adjoint, so autograd goes back by the other. No
// row is dropped or padded, whatever the load. The order depends on the ranks' order alone, so the
// same run gives the same bits.
//
// Collective, also for a rank without rows or bins: where one rank goes backward through a move,
// all must. Cost of Meet: one AllToAll of 8 bytes for each bin of others; of each move: one
// AllToAll of the rows of others' bins (ToBins) or of others' rows (FromBins); each P - 1 steps. A
// group of one does nothing. Memory: what is sent, and what came, once more at work.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"

namespace moonring::comm {

// Where each rank's bins begin, and the end: P + 1 numbers from 0 to `bins`, as even as may be, the
// first ranks with one more.
std::vector<int64_t> BinParts(int64_t bins, int ranks);

class BinExchange {
 public:
  // Rank r has bins [border[r], border[r + 1]). Throws where borders do not fit the group.
  BinExchange(std::shared_ptr<Communicator> group, std::vector<int64_t> border);

  int64_t bins() const { return border_.back(); }
  int64_t first() const { return border_[group_->rank()]; }  // of this rank's bins
  int64_t count() const { return border_[group_->rank() + 1] - first(); }
  bool alone() const { return group_->size() == 1; }
  const std::vector<int64_t>& border() const { return border_; }
  const std::shared_ptr<Communicator>& group() const { return group_; }

  // What one set of rows does.
  struct Meeting {
    std::vector<int64_t> begin;                    // of own bins among the M rows: count() + 1
    std::vector<int64_t> send_rows, receive_rows;  // by rank
    at::Tensor arrived_M;  // int64: where among the rows as they come by rank the m-th by bin is
    at::Tensor leaving_M;  // its inverse
    std::shared_ptr<Communicator> group;
  };

  // `begin`: bin e has rows [begin[e], begin[e + 1]); E + 1 numbers. `device`: that of the rows.
  // Throws StatusError where a call fails.
  Meeting Meet(const std::vector<int64_t>& begin, const at::Device& device) const;

 private:
  std::shared_ptr<Communicator> group_;
  std::vector<int64_t> border_;
};

// Differentiable. Throw StatusError where a call fails, and c10::Error where shapes do not fit.
at::Tensor ToBins(const at::Tensor& rows_ND, const BinExchange::Meeting& meeting);
at::Tensor FromBins(const at::Tensor& rows_MD, const BinExchange::Meeting& meeting);

// What a rank sends, as Communicator counts it, of rows of `row_bytes`.
struct BinTraffic {
  int64_t steps = 0, bytes = 0;
};
// rows_PE[p][e] is n_pe. Meet, ToBins and FromBins; a backward is the latter two again.
BinTraffic CountBinTraffic(const std::vector<std::vector<int64_t>>& rows_PE,
                           const std::vector<int64_t>& border, int rank, int64_t row_bytes,
                           bool meets);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_BIN_EXCHANGE_H_
