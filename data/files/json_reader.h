// Reads the rows of a .json or .jsonl file, with one row in memory at a time however large the
// file.
//
// A file whose first character is '[' is an array of rows, or several arrays one after another. Any
// other file is a sequence of JSON values, one row each; line ends are not significant. The file's
// extension does not matter. NaN, Infinity and -Infinity are accepted as numbers, and the last one
// of several equal keys counts, as in Python.
//
// Errors have the form `FILE:LINE:COLUMN (row N): message` (all from 1, columns in characters); and
// TextFile's errors. Cost: one pass, one parse per row. A saved state (RowReader::State) contains
// the byte offset, so Seek does not reread earlier rows, except in compressed files.
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
  bool begins_ = true;  // array: no element has been read yet
  std::string text_;    // text of the current row
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_JSON_READER_H_
