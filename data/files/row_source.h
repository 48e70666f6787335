// Iterates over the rows of a data set's files, one file after another in the given order, with the
// reader of each file's kind (data/files/file_kind.h).
//
// Fails if a file's kind is unknown; otherwise with the readers' errors. Cost: one open file and
// one row (.parquet and .arrow: one batch) in memory.
#ifndef MOONRING_DATA_FILES_ROW_SOURCE_H_
#define MOONRING_DATA_FILES_ROW_SOURCE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/files/row.h"
#include "data/files/row_reader.h"
#include "data/pipeline/source.h"

namespace moonring::data {

// The position of a row in several files. Seeking to it does not read earlier rows, except in
// compressed files.
struct RowPlace {
  size_t file = 0;
  RowReader::State at;
};

class RowSource final : public Source<Row> {
 public:
  static absl::StatusOr<std::unique_ptr<RowSource>> Open(std::vector<std::string> files);

  absl::StatusOr<std::optional<Row>> Next() override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view state) override;

  // The position of the next row, and of the row returned last.
  RowPlace place() const;
  const RowPlace& last_place() const { return last_; }
  // Moves to a position in these files. If that fails, the source is unchanged.
  absl::Status Seek(const RowPlace& place);

 private:
  explicit RowSource(std::vector<std::string> files) : files_(std::move(files)) {}

  std::vector<std::string> files_;
  size_t file_ = 0;
  std::unique_ptr<RowReader> reader_;  // reader of files_[file_]; null if there are no files
  RowPlace last_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ROW_SOURCE_H_
