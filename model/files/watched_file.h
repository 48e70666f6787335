#ifndef MOONRING_MODEL_FILES_WATCHED_FILE_H_
#define MOONRING_MODEL_FILES_WATCHED_FILE_H_

// Detects changes of mapped files while a model still reads their pages.
//
// If other programs write into a file, the tensors that view that file (mapped_file.h) change too:
// an `rsync --inplace`, or a `cp` over the file, changes frozen weights in the middle of a training
// run. The process cannot prevent such writes, so it detects them by the file's device and inode,
// size and modification time.

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

namespace moonring::model {

class WatchedFile {
 public:
  // Watches the file as long as the returned object exists. `facts` is the result of fstat on the
  // mapped file.
  static std::shared_ptr<const WatchedFile> Watch(std::string path, const struct stat& facts);

  const std::string& path() const { return path_; }

 private:
  friend std::vector<std::string> TakeChangedFiles();
  WatchedFile(std::string path, const struct stat& facts)
      : path_(std::move(path)), facts_(facts), seen_(facts) {}

  const std::string path_;
  const struct stat facts_;
  mutable struct stat seen_;  // stat at the last check; all zeros if there was no file
};

// Changes of the watched files since the last call, one sentence per file; each change is reported
// once. Thread-safe.
std::vector<std::string> TakeChangedFiles();

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_WATCHED_FILE_H_
