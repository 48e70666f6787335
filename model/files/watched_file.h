#ifndef MOONRING_MODEL_FILES_WATCHED_FILE_H_
#define MOONRING_MODEL_FILES_WATCHED_FILE_H_

// Detects changes of mapped files while a model still reads their pages.
//
// A tensor that views a file (mapped_file.h) sees data written into that file later: an `rsync
// --inplace`, or a `cp` over it, changes frozen weights in the middle of a run. The process cannot
// prevent that, so it detects it by the file's device and inode, its size and its modification
// time.

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

namespace moonring::model {

class WatchedFile {
 public:
  // Watches the file as long as the returned object exists. `facts` are those of the open
  // descriptor.
  static std::shared_ptr<const WatchedFile> Watch(std::string path, const struct stat& facts);

  const std::string& path() const { return path_; }

 private:
  friend std::vector<std::string> TakeChangedFiles();
  WatchedFile(std::string path, const struct stat& facts)
      : path_(std::move(path)), facts_(facts), seen_(facts) {}

  const std::string path_;
  const struct stat facts_;
  mutable struct stat seen_;  // at the last check; all zeros if the file did not exist
};

// Changes of the watched files since the last call, one sentence per file; each change is reported
// once. Thread-safe.
std::vector<std::string> TakeChangedFiles();

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_WATCHED_FILE_H_
