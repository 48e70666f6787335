// Interface of the readers of all file kinds: iterates over the rows of one open file, in order.
//
// Next() returns nullopt at the end, also when called again. After an error, a reader may be
// unusable. Error messages name the file and the row or its line.
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
  // A position to resume from, after `rows` rows were returned. In a file without lines, `position`
  // stays at the beginning.
  struct State {
    TextPosition position;
    int64_t rows = 0;
    bool ended = false;
  };

  virtual ~RowReader() = default;

  virtual absl::StatusOr<std::optional<Row>> Next() = 0;
  virtual State state() const = 0;
  // Moves a newly opened reader to a state of the same file.
  virtual absl::Status Seek(const State& state) = 0;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ROW_READER_H_
