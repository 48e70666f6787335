// The rows of one open file, in their order: what a reader of each kind of file is.
//
// Next() gives nothing at the end and ever after. After an error a reader need not recover.
// Messages name the file and the row or its line.
#ifndef MOONRING_DATA_FILES_ROW_READER_H_
#define MOONRING_DATA_FILES_ROW_READER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/files/row.h"
#include "data/files/text_position.h"

namespace moonring::data {

class RowReader {
 public:
  // Where to go on; `rows` were handed out. A file without lines is at its beginning for ever.
  struct State {
    TextPosition position;
    int64_t rows = 0;
    bool ended = false;
  };

  virtual ~RowReader() = default;

  virtual absl::StatusOr<std::optional<Row>> Next() = 0;
  virtual State state() const = 0;
  // Goes to a state of the same file, on a reader that has just been opened.
  virtual absl::Status Seek(const State& state) = 0;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ROW_READER_H_
