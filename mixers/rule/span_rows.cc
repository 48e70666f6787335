#include "mixers/rule/span_rows.h"

#include <utility>

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <c10/util/Exception.h>

namespace moonring::mixers {

SpanRows::SpanRows(const std::vector<int64_t>& lengths, std::vector<int64_t> spans)
    : spans_(std::move(spans)) {
  std::vector<int64_t> begins = {0};
  for (const int64_t length : lengths) begins.push_back(begins.back() + length);
  std::vector<at::Tensor> runs;
  bool one_run = true;
  for (const int64_t span : spans_) {
    const int64_t begin = begins.at(span), length = lengths.at(span);
    lengths_.push_back(length);
    if (length == 0) continue;
    if (rows_ == 0) first_ = begin;
    one_run &= begin == first_ + rows_;
    rows_ += length;
    runs.push_back(at::arange(begin, begin + length, at::kLong));
  }
  if (!one_run) index_R_ = at::cat(runs);
}

at::Tensor SpanRows::Of(const at::Tensor& x) const {
  return index_R_.defined() ? x.index_select(0, index_R_.to(x.device()))
                            : x.narrow(0, first_, rows_);
}

DeltaInputs SpanRows::Of(const DeltaInputs& inputs) const {
  return {Of(inputs.q_THK), Of(inputs.k_THK),   Of(inputs.v_THV),
          Of(inputs.g),     Of(inputs.beta_TH), {}};
}

void SpanRows::Put(const at::Tensor& x, const at::Tensor& rows) const {
  if (index_R_.defined()) {
    x.index_copy_(0, index_R_.to(x.device()), rows);
  } else {
    x.narrow(0, first_, rows_).copy_(rows);
  }
}

at::Tensor JoinRows(const std::vector<SpanRows>& sets, const std::vector<at::Tensor>& rows) {
  struct Run {
    size_t set;
    int64_t begin, count;
  };
  std::vector<Run> runs;  // by span
  for (size_t set = 0; set < sets.size(); ++set) {
    int64_t begin = 0;
    for (size_t i = 0; i < sets[set].spans().size(); ++i) {
      const auto span = static_cast<size_t>(sets[set].spans()[i]);
      if (runs.size() <= span) runs.resize(span + 1);
      runs[span] = {set, begin, sets[set].lengths()[i]};
      begin += sets[set].lengths()[i];
    }
  }
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < runs.size();) {
    // Consecutive spans of one selection are contiguous in the rows of this selection too.
    Run run = runs[i++];
    for (; i < runs.size() && runs[i].set == run.set; ++i) run.count += runs[i].count;
    parts.push_back(rows[run.set].narrow(0, run.begin, run.count));
  }
  if (parts.empty()) return rows.at(0);  // no rows, but part of the autograd graph
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

}  // namespace moonring::mixers
