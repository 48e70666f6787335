// Rows of Arrow's columns as JSON values, with all that they refer to (arrow_rows.h says which
// value becomes what). What they take is counted before it is made: of each row, and of all rows of
// the file (row_limits.h).
#ifndef MOONRING_DATA_FILES_ARROW_ROW_MAKER_H_
#define MOONRING_DATA_FILES_ARROW_ROW_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <arrow/array.h>
#include <arrow/record_batch.h>

#include "base/text/ordered_json.h"

namespace moonring::data {

class ArrowRowMaker {
 public:
  explicit ArrowRowMaker(int64_t file_bytes) : file_bytes_(file_bytes) {}

  // Row `i` of a batch that is valid. Throws std::runtime_error, with the limit, where it or the
  // file's rows so far take too much.
  base::OrderedJson Row(const arrow::RecordBatch& batch, int64_t i);

 private:
  void AddValues(int64_t count);
  void AddBytes(size_t count);

  base::OrderedJson ValueAt(const arrow::Array& array, int64_t i);
  base::OrderedJson Text(std::string_view text);
  template <typename List>
  base::OrderedJson ListAt(const List& list, int64_t i);
  base::OrderedJson StructAt(const arrow::StructArray& array, int64_t i);
  base::OrderedJson TextOfScalar(const arrow::Array& array, int64_t i);

  const int64_t file_bytes_;
  int64_t rows_ = 0, values_ = 0, bytes_ = 0;
  int64_t row_values_ = 0, row_bytes_ = 0;  // of the row at hand
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_ROW_MAKER_H_
