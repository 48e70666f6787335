#ifndef MOONRING_ATTENTION_PADDED_ROWS_H_
#define MOONRING_ATTENTION_PADDED_ROWS_H_

// Ranges of rows as one batch of matrices, filled up to the longest: [B, m, ...] from [rows, ...].
//
// What fills is a copy of rows that are there, so that all numbers made of it are finite. Of ranges
// of one length that follow one another a batch is a view; others are gathered by index, which is
// made once. Cost: one operator a tensor, and a copy where it is none.

#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "attention/tile.h"

namespace moonring::attention {

class PaddedRows {
 public:
  PaddedRows(const std::vector<RowRange>& ranges, const c10::Device& device);

  int64_t batch() const { return static_cast<int64_t>(ranges_.size()); }
  int64_t longest() const { return longest_; }

  // A view where the ranges are one run.
  at::Tensor Of(const at::Tensor& rows) const;
  bool is_run() const { return is_run_; }

  // The rows that are there, to where they belong.
  void Put(const at::Tensor& padded, const at::Tensor& rows) const;

  // Bool [B, m]: the rows that are not there. Undefined where all are.
  at::Tensor Absent() const;

 private:
  at::Tensor Run(const at::Tensor& rows) const;
  void MakeIndices();

  std::vector<RowRange> ranges_;
  int64_t longest_ = 0;
  c10::Device device_;
  bool is_padded_ = false, is_run_ = false;
  // int64; where it is no run: what Of takes, and the rows that are there and their places in that.
  at::Tensor source_, rows_, places_;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_PADDED_ROWS_H_
