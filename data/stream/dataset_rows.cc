#include "data/stream/dataset_rows.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/status/status_macros.h"

namespace moonring::data {

absl::StatusOr<DatasetRows> DatasetRows::Count(const std::vector<std::string>& files) {
  constexpr size_t kMostPlaces = 4096;
  DatasetRows counted;
  counted.files_ = files;
  ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> source, RowSource::Open(files));
  while (true) {
    if (counted.rows_ % counted.stride_ == 0) {
      counted.places_.push_back(source->place());
      if (counted.places_.size() == kMostPlaces) {  // keeps every second position
        for (size_t i = 0; 2 * i < kMostPlaces; ++i) counted.places_[i] = counted.places_[2 * i];
        counted.places_.resize(kMostPlaces / 2);
        counted.stride_ *= 2;
      }
    }
    ASSIGN_OR_RETURN(const std::optional<Row> row, source->Next());
    if (!row.has_value()) return counted;
    ++counted.rows_;
  }
}

absl::StatusOr<RowRange> DatasetRows::Part(int64_t part, int64_t parts) const {
  const int64_t size = rows_ / parts, longer = rows_ % parts;
  const int64_t begin = size * part + std::min(part, longer);
  RowRange range{.begin = places_[begin / stride_], .rows = size + (part < longer)};
  if (begin % stride_ == 0) return range;
  ASSIGN_OR_RETURN(const std::unique_ptr<RowSource> source, RowSource::Open(files_));
  RETURN_IF_ERROR(source->Seek(range.begin));
  for (int64_t row = begin / stride_ * stride_; row < begin; ++row) {
    RETURN_IF_ERROR(source->Next().status());
  }
  range.begin = source->place();
  return range;
}

}  // namespace moonring::data
