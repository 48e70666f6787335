// Reads the rows of a .txt file: each line, empty ones included, is a row {"text": LINE}. Lines end
// with \n, \r\n or \r; the last line may lack a line end.
//
// Fails with `FILE:LINE (row N): message` if a line is not UTF-8; otherwise with TextFile's errors.
#ifndef MOONRING_DATA_FILES_TEXT_READER_H_
#define MOONRING_DATA_FILES_TEXT_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/files/row.h"
#include "data/files/row_reader.h"
#include "data/files/text_file.h"
#include "data/files/text_row_reader.h"

namespace moonring::data {

class TextReader final : public TextRowReader {
 public:
  static absl::StatusOr<std::unique_ptr<RowReader>> Open(const std::string& path);

  absl::StatusOr<std::optional<Row>> Next() override;

 private:
  explicit TextReader(std::unique_ptr<TextFile> file) : TextRowReader(std::move(file)) {}
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_TEXT_READER_H_
