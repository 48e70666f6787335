// Counts the rows of a data set, and finds where each of k contiguous shards of equal size begins.
//
// Shard i of k has the rows begin .. begin + size, begin = i x (n div k) + min(i, n mod k), size =
// n div k + (i < n mod k), as in the datasets library. Count makes one pass over the files and
// stores the positions of at most 4096 rows, so that Part reads at most n / 2048 rows to find the
// start of a shard.
#ifndef MOONRING_DATA_STREAM_DATASET_ROWS_H_
#define MOONRING_DATA_STREAM_DATASET_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/files/row_source.h"

namespace moonring::data {

struct RowRange {
  RowPlace begin;
  int64_t rows = -1;  // negative: all rows, from the beginning
};

class DatasetRows {
 public:
  // Reads every row. Fails as RowSource does.
  static absl::StatusOr<DatasetRows> Count(const std::vector<std::string>& files);

  int64_t rows() const { return rows_; }
  absl::StatusOr<RowRange> Part(int64_t part, int64_t parts) const;

 private:
  std::vector<std::string> files_;
  int64_t rows_ = 0;
  int64_t stride_ = 1;
  std::vector<RowPlace> places_;  // positions of rows 0, stride_, 2 x stride_, ..
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_STREAM_DATASET_ROWS_H_
