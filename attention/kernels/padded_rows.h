#ifndef MOONRING_ATTENTION_KERNELS_PADDED_ROWS_H_
#define MOONRING_ATTENTION_KERNELS_PADDED_ROWS_H_

// Ranges of rows as one batch of matrices, padded to the longest range: [rows, ...] -> [B, m, ...].
//
// Padding repeats the first row of its range, so that everything computed from it is finite. The
// batch is a view where the ranges are adjacent and have one length; else rows are gathered by an
// index tensor that is made once. Cost: one operator per tensor, and a copy unless the batch is a
// view.

#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "attention/kernels/tile.h"

namespace moonring::attention {

class PaddedRows {
 public:
  PaddedRows(const std::vector<RowRange>& ranges, const c10::Device& device);

  int64_t batch() const { return static_cast<int64_t>(ranges_.size()); }
  int64_t longest() const { return longest_; }

  // The batch: a view of `rows` where is_run() (the ranges are adjacent and have one length), else
  // a copy.
  at::Tensor Of(const at::Tensor& rows) const;
  bool is_run() const { return is_run_; }

  // Copies a batch's rows, without the padding, back to their ranges in `rows`.
  void Put(const at::Tensor& padded, const at::Tensor& rows) const;

  // A mask of the padding, bool [B, m]: true for padding. Undefined where there is none.
  at::Tensor Absent() const;

 private:
  at::Tensor Run(const at::Tensor& rows) const;
  void MakeIndices();

  std::vector<RowRange> ranges_;
  int64_t longest_ = 0;
  c10::Device device_;
  bool is_padded_ = false, is_run_ = false;
  // All int64, and undefined where is_run(). source_: the rows that Of gathers, with padding.
  // rows_: the ranges' rows without padding. places_: the index in the batch of each row of rows_.
  at::Tensor source_, rows_, places_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_PADDED_ROWS_H_
