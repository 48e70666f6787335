#include "attention/kernels/padded_rows.h"

#include <algorithm>

#include <ATen/ops/arange.h>

#include "base/memory/to_device.h"

namespace moonring::attention {

PaddedRows::PaddedRows(const std::vector<RowRange>& ranges, const c10::Device& device)
    : ranges_(ranges), device_(device) {
  for (const RowRange& range : ranges) longest_ = std::max(longest_, range.rows());
  bool is_run = true;
  for (size_t i = 0; i < ranges.size(); ++i) {
    is_padded_ = is_padded_ || ranges[i].rows() < longest_;
    is_run = is_run && (i == 0 || ranges[i].begin == ranges[i - 1].end);
  }
  is_run_ = is_run && !is_padded_;
  if (!is_run_) MakeIndices();
}

at::Tensor PaddedRows::Of(const at::Tensor& rows) const {
  const at::Tensor all = is_run_ ? Run(rows) : rows.index_select(0, source_);
  return all.unflatten(0, {batch(), longest_});
}

void PaddedRows::Put(const at::Tensor& padded, const at::Tensor& rows) const {
  const at::Tensor values = padded.flatten(0, 1);
  is_run_ ? Run(rows).copy_(values) : rows.index_copy_(0, rows_, values.index_select(0, places_));
}

at::Tensor PaddedRows::Absent() const {
  if (!is_padded_) return at::Tensor();
  std::vector<int64_t> lengths;
  for (const RowRange& range : ranges_) lengths.push_back(range.rows());
  const at::Tensor lengths_B = base::ToDevice(lengths, device_);
  return at::arange(longest_, lengths_B.options()).unsqueeze(0).ge(lengths_B.unsqueeze(1));
}

at::Tensor PaddedRows::Run(const at::Tensor& rows) const {
  return rows.narrow(0, ranges_.front().begin, batch() * longest_);
}

void PaddedRows::MakeIndices() {
  std::vector<int64_t> source, rows, places;
  for (const RowRange& range : ranges_) {
    for (int64_t i = 0; i < longest_; ++i) {
      if (i < range.rows()) {
        rows.push_back(range.begin + i);
        places.push_back(static_cast<int64_t>(source.size()));
      }
      source.push_back(i < range.rows() ? range.begin + i : range.begin);  // padding: any existing
                                                                           // row
    }
  }
  source_ = base::ToDevice(source, device_);
  rows_ = base::ToDevice(rows, device_);
  places_ = base::ToDevice(places, device_);
}

}  // namespace moonring::attention
