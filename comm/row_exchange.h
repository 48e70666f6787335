#ifndef MOONRING_COMM_ROW_EXCHANGE_H_
#define MOONRING_COMM_ROW_EXCHANGE_H_

// Moves the rows of a packed stream from one distribution over the ranks (a "cut") to another, and
// back.
//
// A cut lists which rows each rank has, in the order of its local rows. Examples: the spans of
// comm::Layout; all rows on every rank (each rank then with some of the columns: Ulysses);
// contiguous spans; a few rows before a span (a halo). The source cut has no row twice; in the
// target cut a row may be on several ranks, several times on one rank, or missing.
//
//   MoveRows       source -> target: a rank's rows with the columns that each target rank needs
//   MoveRowsBack   target -> source: copies of one number from several ranks are added up, in fp32
//                  at least; numbers that no rank has are zero
//
// MoveRows and MoveRowsBack are adjoints, so the backward of each is the other, with no scaling.
//
// Cost of each: one Communicator::Exchange, in which a rank sends one message to each other rank,
// with the rows of all tensors in their own dtypes. Steps: the number of ranks that it sends to, or
// that it receives from if more. Rows that stay on their rank are not sent. Memory: one more copy
// of what is sent and received. If any rank sends something, all ranks must call it; a rank without
// anything to send or receive does nothing.

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::comm {

// The spans of each rank, in the order of its local rows.
using SpansOfRanks = std::vector<std::vector<Span>>;

SpansOfRanks SpansOf(const Layout& layout);
// The spans of a cut in which every rank has every whole document.
SpansOfRanks WholeStream(const Layout& layout);
int64_t RowsOf(const std::vector<Span>& spans);

// The rows that this rank sends and receives between two cuts.
class RowMap {
 public:
  // Throws if a row of the target is in no rank's source.
  RowMap(const SpansOfRanks& source, const SpansOfRanks& target, int rank);

  // A selection of a rank's local rows, in order.
  struct Places {
    int64_t rows = 0;
    int64_t first = 0;   // first row, if they are one contiguous run
    at::Tensor index_R;  // the rows otherwise; on the host
  };

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(sent_.size()); }
  int64_t source_rows() const { return source_rows_; }
  int64_t target_rows() const { return target_rows_; }
  // sent(rank) selects those of this rank's source rows that `rank` has in its target;
  // received(rank) those of this rank's target rows that come from `rank`. `rank` may be this rank.
  const Places& sent(int rank) const { return sent_.at(rank); }
  const Places& received(int rank) const { return received_.at(rank); }
  // Whether all rows of this rank stay where they are, and no others arrive.
  bool stays() const { return stays_; }
  // Whether the target contains a source row of this rank more than once.
  bool repeats() const { return repeats_; }

 private:
  int rank_;
  int64_t source_rows_, target_rows_;
  std::vector<Places> sent_, received_;
  bool stays_ = false, repeats_ = false;
};

// The ranges of dim 1 that each rank has in the target.
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
  std::shared_ptr<const ColumnSplit> columns;  // null: all columns, on every rank
};

// Differentiable; results are in the order of `moved`. Every rank passes the same number of
// tensors. Throws StatusError if communication fails, and c10::Error if shapes do not fit.
std::vector<at::Tensor> MoveRows(const std::vector<MovedRows>& moved,
                                 std::shared_ptr<Communicator> group);
std::vector<at::Tensor> MoveRowsBack(const std::vector<MovedRows>& moved,
                                     std::shared_ptr<Communicator> group);

// Steps and bytes that this rank sends in MoveRows or MoveRowsBack, as Communicator counts them.
struct RowTraffic {
  int64_t steps = 0, bytes = 0;
};
struct CountedRows {
  std::shared_ptr<const RowMap> map;
  std::shared_ptr<const ColumnSplit> columns;  // null: one column
  int64_t column_bytes = 0;                    // of one column of one row
};
RowTraffic CountMoved(const std::vector<CountedRows>& moved);
RowTraffic CountMovedBack(const std::vector<CountedRows>& moved);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_ROW_EXCHANGE_H_
