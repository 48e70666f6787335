#include "model/checkpoint/file_mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include <c10/util/hash.h>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/input_file.h"
#include "base/status/status_macros.h"

namespace moonring::model {
namespace {

constexpr int64_t kWhole = int64_t{64} << 20, kStride = 1 << 20, kSample = 4 << 10;

}  // namespace

absl::StatusOr<std::string> MarkOfFile(const std::string& path) {
  RETURN_IF_ERROR(base::CheckInputFile(path));
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be opened"));
  const auto closed = absl::MakeCleanup([file] { close(file); });
  struct stat facts {};
  if (fstat(file, &facts) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be read"));
  const int64_t size = facts.st_size, take = size <= kWhole ? kStride : kSample;
  if (take == kSample) posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
  // The fingerprint is a digest of the digests of all pieces, so only one piece is in memory at a
  // time.
  std::string sums = absl::StrCat(size, "\n"), piece;
  for (int64_t begin = 0; begin < size; begin += kStride) {
    piece.resize(static_cast<size_t>(std::min(take, size - begin)));
    for (size_t done = 0; done < piece.size();) {
      const ssize_t count = pread(file, piece.data() + done, piece.size() - done,
                                  static_cast<off_t>(begin + static_cast<int64_t>(done)));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        return absl::ErrnoToStatus(count == 0 ? EIO : errno,
                                   absl::StrCat(path, ": cannot be read"));
      }
      done += static_cast<size_t>(count);
    }
    absl::StrAppend(&sums, c10::sha1(piece).str());
  }
  return c10::sha1(sums).str();
}

}  // namespace moonring::model
