#ifndef MOONRING_MODEL_FILES_WATCHED_FILE_H_
#define MOONRING_MODEL_FILES_WATCHED_FILE_H_

// Files whose pages a model still reads, and whether they are what they were when they were opened.
//
// A tensor that looks into a file (mapped_file.h) sees what is written into that file later: an
// `rsync --inplace`, or a `cp` over it, changes frozen weights in the middle of a run. Nothing in
// the process can prevent that, so it is looked for: by the file's device and inode, its size and
// the time of its last change.

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

namespace moonring::model {

class WatchedFile {
 public:
  // From here on, as long as anybody holds the object. `facts` are of the open descriptor.
  static std::shared_ptr<const WatchedFile> Watch(std::string path, const struct stat& facts);

  const std::string& path() const { return path_; }

 private:
  friend std::vector<std::string> TakeChangedFiles();
  WatchedFile(std::string path, const struct stat& facts)
      : path_(std::move(path)), facts_(facts), seen_(facts) {}

  const std::string path_;
  const struct stat facts_;
  mutable struct stat seen_;  // at the last look; all zeros where nothing was there
};

// What has changed of the watched files since the last call, one sentence a file; each change is
// given once. Any thread.
std::vector<std::string> TakeChangedFiles();

}  // namespace moonring::model

#endif  // MOONRING_MODEL_FILES_WATCHED_FILE_H_
