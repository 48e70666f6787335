// The rows of a .json or .jsonl file: one row is in memory at a time, however large the file.
//
// A file whose first character is '[' is one array, each element a row; any other holds one JSON
// value a line (empty lines are passed over), whatever its name ends in. Of a key that is there
// twice the last value counts, as in Python.
//
// Fails with `FILE:LINE:COLUMN (row N): what is wrong` (all from 1, columns in characters), and as
// TextFile does. Cost: one pass, one parse a row; a state holds the byte offset, so Seek does not
// read again what was read (but for compressed files).
#ifndef MOONRING_DATA_FILES_JSON_READER_H_
#define MOONRING_DATA_FILES_JSON_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/files/row.h"
#include "data/files/row_reader.h"
#include "data/files/text_file.h"
#include "data/files/text_position.h"
#include "data/files/text_row_reader.h"

namespace moonring::data {

class JsonReader final : public TextRowReader {
 public:
  static absl::StatusOr<std::unique_ptr<RowReader>> Open(const std::string& path);

  absl::StatusOr<std::optional<Row>> Next() override;

 private:
  explicit JsonReader(std::unique_ptr<TextFile> file) : TextRowReader(std::move(file)) {}

  absl::StatusOr<bool> BeforeElement();
  void TakeElement();
  void TakeLine();
  void PassBlanks();
  absl::Status status() const { return file_->status(rows_ + 1); }
  absl::Status ParseError(TextPosition begin, const nlohmann::json::parse_error& error);
  absl::Status Error(const TextPosition& at, absl::string_view what) const;

  bool is_array_ = false;
  std::string text_;  // of the row at hand
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_JSON_READER_H_
