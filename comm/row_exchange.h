#ifndef MOONRING_COMM_ROW_EXCHANGE_H_
#define MOONRING_COMM_ROW_EXCHANGE_H_

// Rows of a packed stream from one cut over the ranks to another, and back.
//
// A cut says which rows each rank has, in the order of its local rows: comm::Layout's, all rows on
// every rank (each then with some columns: Ulysses), contiguous spans, a few rows before a span (a
// halo). The source has no row twice; a target may have a row on several ranks, or several times,
// or not at all.
//
//   MoveRows       source -> target: a rank's rows with the columns that each rank is to have
//   MoveRowsBack   target -> source: what stands for one number on several ranks is added up, in
//                  fp32 at least; what nobody has is zero
//
// Each is the other's adjoint, so autograd goes back by the other, with no scaling.
//
// Cost of each: one Communicator::Exchange, in which a rank sends each other one message, of all
// tensors' rows in their own dtypes; steps: ranks that it sends to, or receives from if more. What
// stays on a rank does not travel. Memory: what is sent and received once more. Collective where
// anything travels: ranks that have nothing to send or receive do nothing.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::comm {

// By rank, in the order of its local rows.
using SpansOfRanks = std::vector<std::vector<Span>>;

SpansOfRanks SpansOf(const Layout& layout);
// Every document whole, on every rank.
SpansOfRanks WholeStream(const Layout& layout);
int64_t RowsOf(const std::vector<Span>& spans);

// What travels between two cuts, seen by one rank.
class RowMap {
 public:
  // Throws where a row of the target is in no rank's source.
  RowMap(const SpansOfRanks& source, const SpansOfRanks& target, int rank);

  // Some of a rank's local rows, in an order.
  struct Places {
    int64_t rows = 0;
    int64_t first = 0;   // where they are one run
    at::Tensor index_R;  // where not; on the host
  };

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(sent_.size()); }
  int64_t source_rows() const { return source_rows_; }
  int64_t target_rows() const { return target_rows_; }
  // Of this rank's source rows, those that `rank` has in its target; of this rank's target rows,
  // those that come from `rank`. The own rank's too.
  const Places& sent(int rank) const { return sent_.at(rank); }
  const Places& received(int rank) const { return received_.at(rank); }
  // Whether all rows stay where they are, and none come.
  bool stays() const { return stays_; }
  // Whether some source row of this rank is in the target more than once.
  bool repeats() const { return repeats_; }

 private:
  int rank_;
  int64_t source_rows_, target_rows_;
  std::vector<Places> sent_, received_;
  bool stays_ = false, repeats_ = false;
};

// Which of dim 1 each rank has in the target, one range after another.
struct ColumnRange {
  int64_t begin = 0, count = 0;
};
struct ColumnSplit {
  int64_t width = 0;  // in the source
  std::vector<std::vector<ColumnRange>> of_rank;
  int64_t WidthOf(int rank) const;
};

struct MovedRows {
  at::Tensor rows;  // [rows, columns, ...]
  std::shared_ptr<const RowMap> map;
  std::shared_ptr<const ColumnSplit> columns;  // null: all, on every rank
};

// Differentiable; results in the order of `moved`. Every rank gives the same number of tensors.
// Throws StatusError where a call fails, and c10::Error where shapes do not fit.
std::vector<at::Tensor> MoveRows(const std::vector<MovedRows>& moved,
                                 std::shared_ptr<Communicator> group);
std::vector<at::Tensor> MoveRowsBack(const std::vector<MovedRows>& moved,
                                     std::shared_ptr<Communicator> group);

// What MoveRows has this rank send, and MoveRowsBack; as Communicator counts them.
struct RowTraffic {
  int64_t steps = 0, bytes = 0;
};
struct CountedRows {
  std::shared_ptr<const RowMap> map;
  std::shared_ptr<const ColumnSplit> columns;  // null: of one column
  int64_t column_bytes = 0;                    // of one column of a row
};
RowTraffic CountMoved(const std::vector<CountedRows>& moved);
RowTraffic CountMovedBack(const std::vector<CountedRows>& moved);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_ROW_EXCHANGE_H_
