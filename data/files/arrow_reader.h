// Reads the rows of a .parquet file or an .arrow file (IPC, stream or file format).
//
// Errors have the form `FILE (row N): message`, where N is the row to be read next; the fault may
// be in a later row of its batch. Also fails if the libraries are missing. Memory: one batch of
// rows and the pages of one row group. Seek skips row groups without reading them.
#ifndef MOONRING_DATA_FILES_ARROW_READER_H_
#define MOONRING_DATA_FILES_ARROW_READER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/files/arrow_rows.h"
#include "data/files/row.h"
#include "data/files/row_reader.h"

namespace moonring::data {

class ArrowReader final : public RowReader {
 public:
  static absl::StatusOr<std::unique_ptr<RowReader>> Open(const std::string& path, bool parquet);

  absl::StatusOr<std::optional<Row>> Next() override;
  State state() const override { return {.rows = rows_, .ended = ended_}; }
  absl::Status Seek(const State& state) override;

 private:
  ArrowReader(std::string path, std::unique_ptr<ArrowRows> arrow)
      : path_(std::move(path)), arrow_(std::move(arrow)) {}
  absl::Status Error(absl::string_view what) const;

  std::string path_;
  std::unique_ptr<ArrowRows> arrow_;
  int64_t rows_ = 0;
  bool ended_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_ARROW_READER_H_
