#include "model/files/watched_file.h"

#include <cerrno>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace moonring::model {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::weak_ptr<const WatchedFile>> files;
};

Registry& Watched() {
  static Registry* const registry = new Registry;  // never deleted: must outlive every tensor
  return *registry;
}

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool SameContents(const struct stat& a, const struct stat& b) {
  return SameFile(a, b) && a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

std::string Describe(const std::string& path, const struct stat& before, const struct stat& now) {
  if (now.st_ino == 0)
    return absl::StrCat(path,
                        " is gone: the run keeps reading the file that it has open, and cannot be "
                        "resumed without the file");
  if (!SameFile(before, now))
    return absl::StrCat(path,
                        " is another file than the one that this run has open: the run keeps "
                        "reading the open one, and a resumed run would read the new one");
  return absl::StrCat(
      path, " has changed while the run reads it: it was written to at ",
      absl::FormatTime("%H:%M:%S", absl::TimeFromTimespec(now.st_mtim), absl::LocalTimeZone()),
      ". Frozen weights, and with them the numbers of the log, may have changed since then. "
      "Replace a file that is in use by renaming the new one over it");
}

}  // namespace

std::shared_ptr<const WatchedFile> WatchedFile::Watch(std::string path, const struct stat& facts) {
  std::shared_ptr<const WatchedFile> file(new WatchedFile(std::move(path), facts));
  const std::lock_guard<std::mutex> lock(Watched().mutex);
  std::erase_if(Watched().files, [](const auto& each) { return each.expired(); });
  Watched().files.push_back(file);
  return file;
}

std::vector<std::string> TakeChangedFiles() {
  std::vector<std::string> changed;
  const std::lock_guard<std::mutex> lock(Watched().mutex);
  for (const auto& each : Watched().files) {
    const std::shared_ptr<const WatchedFile> file = each.lock();
    struct stat now {};
    if (file == nullptr) continue;
    if (stat(file->path().c_str(), &now) != 0) {
      // The disk does not respond at the moment; the file is checked again later.
      if (errno != ENOENT && errno != ENOTDIR) continue;
      now = {};
    }
    if (SameContents(file->seen_, now)) continue;
    file->seen_ = now;
    if (!SameContents(file->facts_, now))
      changed.push_back(Describe(file->path(), file->facts_, now));
  }
  return changed;
}

}  // namespace moonring::model
