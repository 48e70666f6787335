// The rows of a data set's files, one file after another in the order given, each by the reader of
// its kind (data/files/file_kind.h).
//
// Fails where a file's kind is unknown, and as its reader does. Cost: one open file, one row (of
// .parquet and .arrow: one batch) in memory.
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

// Where a row of several files begins: enough to go there without reading what comes before it (but
// for compressed files).
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

  // Of the next row, and of the one that was handed out last.
  RowPlace place() const;
  const RowPlace& last_place() const { return last_; }
  // To a place in these files. Where that fails the source is unchanged.
  absl::Status Seek(const RowPlace& place);

 private:
  explicit RowSource(std::vector<std::string> files) : files_(std::move(files)) {}

  std::vector<std::string> files_;
  size_t file_ = 0;
  std::unique_ptr<RowReader> reader_;  // of files_[file_]; none where there is no file
  RowPlace last_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ROW_SOURCE_H_
