// Reads the rows of a .csv file like pandas.read_csv: the first record has the column names, each
// further record is a row {name: cell}.
//
// Cells are separated by commas, records by \n, \r\n or \r. A cell that begins with '"' extends to
// the next single '"' ("" is an escaped quote) and may contain commas and line ends; a quote
// elsewhere is an ordinary character. Blank lines are skipped. Cells are strings, even if they look
// like numbers, except for the texts that pandas reads as missing values (empty, NA, NaN, null,
// None, ...; also when quoted), which are null. Missing cells of a short record are null too. A
// column without a name is called `Unnamed: N`, a second column `x` is called `x.1`.
//
// Errors have the form `FILE:LINE (row N): message` (row 0 is the header): a record with more cells
// than columns, an unterminated quote, a cell that is not UTF-8; and TextFile's errors. Cost: one
// pass, one record in memory.
#ifndef MOONRING_DATA_FILES_CSV_READER_H_
#define MOONRING_DATA_FILES_CSV_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/files/row.h"
#include "data/files/row_reader.h"
#include "data/files/text_file.h"
#include "data/files/text_row_reader.h"

namespace moonring::data {

class CsvReader final : public TextRowReader {
 public:
  static absl::StatusOr<std::unique_ptr<RowReader>> Open(const std::string& path);

  absl::StatusOr<std::optional<Row>> Next() override;

 private:
  explicit CsvReader(std::unique_ptr<TextFile> file) : TextRowReader(std::move(file)) {}

  absl::Status ReadHeader();
  absl::StatusOr<bool> TakeRecord(int64_t row);
  absl::Status TakeCell(int64_t row);

  std::vector<std::string> columns_;
  std::vector<std::string> cells_;  // of the current record
  int64_t line_ = 0;                // line where the record begins
  bool quoted_ = false;             // whether one of its cells is quoted
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_CSV_READER_H_
