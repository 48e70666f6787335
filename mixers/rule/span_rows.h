#ifndef MOONRING_MIXERS_RULE_SPAN_ROWS_H_
#define MOONRING_MIXERS_RULE_SPAN_ROWS_H_

// A selection of a rank's spans (contiguous runs of a document's tokens), and their rows among all
// rows of the rank. Selected rows are a view where they are contiguous, else a copy.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "mixers/rule/delta_inputs.h"

namespace moonring::mixers {

class SpanRows {
 public:
  // `lengths`: tokens of all spans of the rank; `spans`: indices of the selected ones, ascending.
  SpanRows(const std::vector<int64_t>& lengths, std::vector<int64_t> spans);

  const std::vector<int64_t>& spans() const { return spans_; }
  const std::vector<int64_t>& lengths() const { return lengths_; }
  int64_t rows() const { return rows_; }

  // Selects the rows: [T_local, ...] -> [rows, ...]. Differentiable.
  at::Tensor Of(const at::Tensor& x) const;
  // Selects the rows of all inputs except the initial states, which stay undefined.
  DeltaInputs Of(const DeltaInputs& inputs) const;
  // Writes `rows` to the selected rows of `x`.
  void Put(const at::Tensor& x, const at::Tensor& rows) const;

 private:
  std::vector<int64_t> spans_, lengths_;
  int64_t rows_ = 0, first_ = 0;
  at::Tensor index_R_;  // undefined where the rows are contiguous
};

// Joins rows that were computed for several selections of spans into all rows of the rank, in the
// rank's order. Each span must be in exactly one selection. Differentiable.
at::Tensor JoinRows(const std::vector<SpanRows>& sets, const std::vector<at::Tensor>& rows);

}  // namespace moonring::mixers

#endif  // MOONRING_MIXERS_RULE_SPAN_ROWS_H_
