#ifndef MOONRING_BASE_FILES_OUTPUT_FILE_H_
#define MOONRING_BASE_FILES_OUTPUT_FILE_H_

// A file that is there whole or not at all: bytes go to a draft without a name, which Commit gives
// it; without a Commit the draft goes, however the process ends. On a file system without such
// files (NFS) the draft is PATH.PID.tmp beside it, which a process that is killed leaves behind.
//
// A symbolic link is replaced by the file: the folder may be somebody else's, and the link lead to
// any file of the user's. (Those of /dev and /proc are followed: /dev/stdout.) What is there but no
// regular file (a pipe, a terminal, /dev/full) is written to as it stands: to rename over it would
// put a plain file in the device's place. A named pipe that nobody reads within a second is
// an error: to wait for a reader could take for ever.
//
// Fails with "PATH: cannot be written: why", under the code of the errno: NOT_FOUND (no such
// folder) and the like from Create, RESOURCE_EXHAUSTED (a full disk) from Append or Commit.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Append(absl::string_view bytes);
  absl::Status Commit();

 private:
  OutputFile(std::string name, std::string target, std::string draft, bool is_nameless,
             int descriptor);
  absl::Status Flush();
  absl::Status Failure(int error) const;

  std::string name_;  // as the caller says it
  std::string target_;
  std::string draft_;  // "" where the target is written to directly
  bool is_nameless_;   // the draft has not got its name yet
  std::string buffer_;
  int descriptor_;
};

// The usual whole: Create, Append, Commit; or into memory, where that is asked for (held_files.h).
absl::Status WriteWhole(const std::string& path, absl::string_view contents);

// Brings the names of a folder's files to the disk, after the files themselves. Nothing where the
// file system cannot do so (EINVAL).
absl::Status FlushFolder(const std::string& folder);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_OUTPUT_FILE_H_
