#ifndef MOONRING_TRAINER_DURABLE_FILE_H_
#define MOONRING_TRAINER_DURABLE_FILE_H_

// Files that survive a run that ends badly: whole or absent, and lines that are never half written.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::trainer {

// Writes under a temporary name beside `path`, then renames: a reader sees the old contents or the new.
absl::Status ReplaceFile(const std::string& path, absl::string_view contents);

absl::StatusOr<std::string> ReadFile(const std::string& path);

// Appends lines, each by one write, in the file as soon as Append returns. A line that an earlier run left unfinished is cut off on Open.
class LineAppender {
 public:
  // keep: go on after the file's lines; else begin anew.
  static absl::StatusOr<LineAppender> Open(const std::string& path, bool keep);
  LineAppender(LineAppender&& other) noexcept;
  LineAppender& operator=(LineAppender&&) = delete;
  ~LineAppender();

  absl::Status Append(absl::string_view line);  // without its line break

 private:
  LineAppender(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;
};

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_DURABLE_FILE_H_
