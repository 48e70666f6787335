#include "trainer/checkpoint/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/status/status_macros.h"

namespace moonring::trainer {
namespace {

absl::Status Failure(const std::string& path, absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot ", what));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  RETURN_IF_ERROR(base::CheckWholeFile(path));
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return Failure(path, "open");
  std::string contents{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return Failure(path, "read");
  return contents;
}

absl::StatusOr<LineAppender> LineAppender::Open(const std::string& path, bool keep) {
  RETURN_IF_ERROR(base::CheckWriting(path));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  const auto open_it = [&] { return open(path.c_str(), kFlags | (keep ? 0 : O_TRUNC), 0666); };
  int file = open_it();
  if (file < 0 && errno == ELOOP && !keep && unlink(path.c_str()) == 0) file = open_it();
  if (file < 0 && errno == ELOOP) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        " is a symbolic link: what it leads to is not appended to; put the file in its place"));
  }
  struct stat facts {};
  const bool is_pipe =
      file < 0 ? errno == ENXIO
               : fstat(file, &facts) == 0 && (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode));
  if (is_pipe) {  // writing to a pipe could block until it is read
    if (file >= 0) close(file);
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is a pipe or socket, expected a regular file"));
  }
  if (file < 0) return Failure(path, "open");
  LineAppender appender(path, file);
  if (!keep) return appender;
  ASSIGN_OR_RETURN(const std::string contents, ReadFile(path));
  const size_t end = contents.rfind('\n');
  const size_t whole = end == std::string::npos ? 0 : end + 1;
  if (whole != contents.size() && ftruncate(file, static_cast<off_t>(whole)) != 0)
    return Failure(path, "truncate");
  return appender;
}

LineAppender::LineAppender(LineAppender&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, -1)),
      waiting_(std::move(other.waiting_)) {}

LineAppender::~LineAppender() {
  if (file_ >= 0) close(file_);
}

absl::Status LineAppender::Append(absl::string_view line) {
  return AppendBytes(absl::StrCat(line, "\n"));
}

absl::Status LineAppender::AppendBytes(absl::string_view bytes) {
  absl::StrAppend(&waiting_, bytes);
  return Flush();
}

// Creates the file again, with all its lines, if it was removed (or its folder renamed) and its
// folder exists. If another file has that name, nothing changes and lines still go to the old file.
void LineAppender::ComeBack() {
  struct stat named {};
  if (stat(path_.c_str(), &named) == 0 || errno != ENOENT) return;
  const absl::StatusOr<std::string> lines = ReadFile(absl::StrCat("/proc/self/fd/", file_));
  if (!lines.ok()) return;
  LineAppender again(path_,
                     open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (again.file_ < 0) return;
  again.waiting_ = absl::StrCat(*lines, waiting_);
  std::swap(file_, again.file_);
  std::swap(waiting_, again.waiting_);
}

absl::Status LineAppender::Flush() {
  if (!waiting_.empty()) ComeBack();
  while (!waiting_.empty()) {
    const ssize_t written = write(file_, waiting_.data(), waiting_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure(path_, "write");
    waiting_.erase(0, static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace moonring::trainer
