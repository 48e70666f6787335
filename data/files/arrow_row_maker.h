// Converts rows of Arrow columns to JSON values, resolving all references (arrow_rows.h lists the
// conversions). The size of each row and of all rows of the file is checked against row_limits.h
// before memory is allocated.
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

  // Converts row `i` of a validated batch. Throws std::runtime_error, which names the limit, if the
  // row or all rows so far are too large.
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
  int64_t row_values_ = 0, row_bytes_ = 0;  // of the current row
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_ROW_MAKER_H_
