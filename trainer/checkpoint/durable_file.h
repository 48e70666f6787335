#ifndef MOONRING_TRAINER_CHECKPOINT_DURABLE_FILE_H_
#define MOONRING_TRAINER_CHECKPOINT_DURABLE_FILE_H_

// Line-based files that survive a crash without partial lines. (For whole files:
// base/files/output_file.h.)

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::trainer {

absl::StatusOr<std::string> ReadFile(const std::string& path);

// Appends lines, which are in the file when Append returns. Data that cannot be written (full disk)
// is kept in memory and written before the next line. Open removes an incomplete last line of an
// earlier run. If the file is removed while it is open, the next line recreates it with all its
// lines, provided that its folder exists.
class LineAppender {
 public:
  // keep: append to the existing lines; otherwise the file is truncated. A symbolic link is
  // replaced, not followed; with `keep`, it is an error (FAILED_PRECONDITION).
  static absl::StatusOr<LineAppender> Open(const std::string& path, bool keep);
  LineAppender(LineAppender&& other) noexcept;
  LineAppender& operator=(LineAppender&&) = delete;
  ~LineAppender();

  // An error means that the line, and everything waiting before it, is not in the file yet.
  absl::Status Append(absl::string_view line);        // without its line feed
  absl::Status AppendBytes(absl::string_view bytes);  // for files that do not consist of lines
  absl::Status Flush();                               // writes the data kept in memory

 private:
  LineAppender(std::string path, int file) : path_(std::move(path)), file_(file) {}

  void ComeBack();

  std::string path_;
  int file_;
  std::string waiting_;  // may begin inside a line, if the disk accepted a part of it
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_CHECKPOINT_DURABLE_FILE_H_
