// Reads a text file byte by byte, plain or compressed (data/files/byte_stream.h), and tracks
// offset, line and column. A UTF-8 byte order mark is skipped.
//
// After a read error, Peek() returns kEnd and failed() is true. Open fails, with the file's name,
// if the file cannot be opened or begins with a UTF-16 byte order mark.
#ifndef MOONRING_DATA_FILES_TEXT_FILE_H_
#define MOONRING_DATA_FILES_TEXT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/files/byte_stream.h"
#include "data/files/text_position.h"

namespace moonring::data {

class TextFile {
 public:
  static constexpr int kEnd = -1;

  static absl::StatusOr<std::unique_ptr<TextFile>> Open(std::string path);

  // Begins a row: reading more than kMostRowBytes (row_limits.h) from here on fails.
  void BeginRow() { row_begins_ = position_.offset; }

  // The next byte, or kEnd, without consuming it.
  int Peek() {
    return next_ < buffer_.size() || Fill() ? static_cast<unsigned char>(buffer_[next_]) : kEnd;
  }
  // Consumes the byte that Peek() returned, which was not kEnd.
  void Take() { position_.Advance(static_cast<unsigned char>(buffer_[next_++])); }
  // Consumes \n, \r\n or \r, if one is next.
  void TakeLineEnd();

  const std::string& path() const { return path_; }
  const TextPosition& position() const { return position_; }
  bool failed() const { return !status_.ok(); }

  // The read error, if any, with file, line and row `row`; otherwise OK.
  absl::Status status(int64_t row) const;
  // The error `FILE:LINE (row ROW): what`, INVALID_ARGUMENT.
  absl::Status Error(int64_t line, int64_t row, absl::string_view what) const;
  // INVALID_ARGUMENT, as Error() returns it, if `text`, which begins at this line and row, is not
  // UTF-8.
  absl::Status CheckUtf8(absl::string_view text, int64_t line, int64_t row) const;

  // Moves to a position of the same file, right after Open.
  absl::Status Seek(const TextPosition& position);

 private:
  TextFile(std::string path, std::unique_ptr<ByteStream> stream)
      : path_(std::move(path)), stream_(std::move(stream)) {}
  bool Fill();

  std::string path_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  size_t next_ = 0;  // index in buffer_
  TextPosition position_;
  int64_t row_begins_ = 0;
  bool at_end_ = false;
  absl::Status status_;
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_TEXT_FILE_H_
