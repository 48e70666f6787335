// Base class of the readers of text files: keeps the file and the number of rows returned, and
// seeks.
#ifndef MOONRING_DATA_FILES_TEXT_ROW_READER_H_
#define MOONRING_DATA_FILES_TEXT_ROW_READER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "data/files/row_reader.h"
#include "data/files/text_file.h"

namespace moonring::data {

class TextRowReader : public RowReader {
 public:
  State state() const override {
    return {.position = file_->position(), .rows = rows_, .ended = ended_};
  }
  absl::Status Seek(const State& state) override;

 protected:
  explicit TextRowReader(std::unique_ptr<TextFile> file) : file_(std::move(file)) {}

  std::unique_ptr<TextFile> file_;
  int64_t rows_ = 0;
  bool ended_ = false;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_TEXT_ROW_READER_H_
