// The rows of a .json or .jsonl file: one row is in memory at a time, however large the file.
//
// A file whose first character is '[' is an array, or several one after another, each element a
// row; any other holds JSON values one after another, a row each, wherever lines end: one a line,
// several, or one over several lines; whatever its name ends in. NaN, Infinity and -Infinity are
// numbers, as in Python. Of a key that is there twice the last value counts, as there too.
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
  absl::Status Seek(const State& state) override;

 private:
  explicit JsonReader(std::unique_ptr<TextFile> file) : TextRowReader(std::move(file)) {}

  absl::StatusOr<bool> BeforeElement();
  absl::StatusOr<bool> BeforeValue();
  absl::Status TakeValue();
  void PassBlanks();
  absl::Status status() const { return file_->status(rows_ + 1); }
  absl::Status ParseError(TextPosition begin, const nlohmann::json::parse_error& error);
  absl::Status Error(const TextPosition& at, absl::string_view what) const;

  bool is_array_ = false;
  bool begins_ = true;  // an array: no element of it was read
  std::string text_;    // of the row at hand
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_JSON_READER_H_
