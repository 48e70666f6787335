// The rows of a .csv file, as pandas.read_csv splits them: the first record names the columns, each
// further one is a row {name: cell}.
//
// Cells are separated by commas, records by \n, \r\n or \r. A cell that begins with '"' goes to the
// next lone '"' ("" is one quote), commas and line ends included; a quote elsewhere is a character
// like others. Blank lines are passed over. Cells stay texts, whatever they look like, but for
// those that pandas takes for null (empty, NA, NaN, null, None, ...; quoted too), as are the cells
// that a short record lacks. A column without a name is `Unnamed: N`, a second `x` is `x.1`.
//
// Fails with `FILE:LINE (row N): what is wrong` (row 0 is the header): a record of more cells than
// there are columns, a quote that never closes, a cell that is not UTF-8; and as TextFile does.
// Cost: one pass, one record in memory.
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
  std::vector<std::string> cells_;  // of the record at hand
  int64_t line_ = 0;                // where it begins
  bool quoted_ = false;             // a cell of it is
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_CSV_READER_H_
