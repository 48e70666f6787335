#ifndef MOONRING_MIXERS_SPAN_ROWS_H_
#define MOONRING_MIXERS_SPAN_ROWS_H_

// Some of a rank's spans, and their rows among those that the rank has: a view where they are one
// run, else a copy.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mixers/delta_inputs.h"

namespace moonring::mixers {

class SpanRows {
 public:
  // `lengths`: of all spans of the rank; `spans`: numbers of some, ascending.
  SpanRows(const std::vector<int64_t>& lengths, std::vector<int64_t> spans);

  const std::vector<int64_t>& spans() const { return spans_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t rows() const { return rows_; }

  // [T_local, ...] -> [rows, ...]. Differentiable.
  at::Tensor Of(const at::Tensor& x) const;
  // All but the first states, which stay undefined.
  DeltaInputs Of(const DeltaInputs& inputs) const;
  // Writes those rows of `x`.
  void Put(const at::Tensor& x, const at::Tensor& rows) const;

 private:
  std::vector<int64_t> spans_, lengths_;
  int64_t rows_ = 0, first_ = 0;
  at::Tensor index_R_;  // undefined where they are one run
};

// What one set or more, which have each span once, made of their rows, in the rank's order.
// Differentiable.
at::Tensor JoinRows(const std::vector<SpanRows>& sets, const std::vector<at::Tensor>& rows);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_SPAN_ROWS_H_
