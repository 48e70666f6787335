#ifndef MOONRING_TRAINER_DURABLE_FILE_H_
#define MOONRING_TRAINER_DURABLE_FILE_H_

// Lines that survive a run that ends badly: never half written. (Whole files:
// base/files/output_file.h.)

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::trainer {

absl::StatusOr<std::string> ReadFile(const std::string& path);

// Appends lines, in the file as soon as Append returns. What it cannot write (a full disk) waits,
// and is tried again before the next line. A line that an earlier run left unfinished is cut off on
// Open. A file that is removed under its writer comes back with the next line, with all its lines,
// once its folder is there.
class LineAppender {
 public:
  // keep: go on after the file's lines; else begin anew. A symbolic link is not followed: it is
  // replaced; with `keep`, Open fails with FAILED_PRECONDITION.
  static absl::StatusOr<LineAppender> Open(const std::string& path, bool keep);
  LineAppender(LineAppender&& other) noexcept;
  LineAppender& operator=(LineAppender&&) = delete;
  ~LineAppender();

  // Not OK: why the line, and all that waits before it, is not in the file yet.
  absl::Status Append(absl::string_view line);        // without its line break
  absl::Status AppendBytes(absl::string_view bytes);  // of a file that is not made of lines
  absl::Status Flush();                               // writes what waits

 private:
  LineAppender(std::string path, int file) : path_(std::move(path)), file_(file) {}

  void ComeBack();

  std::string path_;
  int file_;
  std::string waiting_;  // from the middle of a line on, where the disk took a part of it
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_DURABLE_FILE_H_
