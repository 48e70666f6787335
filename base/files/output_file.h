#ifndef MOONRING_BASE_FILES_OUTPUT_FILE_H_
#define MOONRING_BASE_FILES_OUTPUT_FILE_H_

// Writes a file atomically: it appears whole or not at all. Bytes go to an unnamed draft
// (O_TMPFILE), which Commit links to its path; without a Commit the draft disappears, however the
// process ends. On a file system without unnamed files (NFS) the draft is PATH.PID.tmp in the same
// folder, which remains if the process is killed.
//
// A symbolic link is replaced by the file, because another user may own the folder and may have
// pointed the link at any of this user's files. (Links below /dev and /proc are followed:
// /dev/stdout.) A target that exists but is not a regular file (a pipe, a terminal, /dev/full) is
// written to directly: a rename would put a plain file in its place. A named pipe that nobody opens
// for reading within a second is an error, because waiting for a reader could take forever.
//
// Fails with "PATH: cannot be written: why", with the code of the errno: NOT_FOUND (no such folder)
// and the like from Create, RESOURCE_EXHAUSTED (a full disk) from Append or Commit.

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

  std::string name_;  // as given by the caller
  std::string target_;
  std::string draft_;  // "" if the target is written to directly
  bool is_nameless_;   // the draft has no name yet
  std::string buffer_;
  int descriptor_;
};

// Create, Append and Commit in one call; writes to memory inside a HeldFilesScope (held_files.h).
absl::Status WriteWhole(const std::string& path, absl::string_view contents);

// Flushes a folder's directory entries to the disk, after the files themselves. Does nothing if the
// file system does not support it (EINVAL).
absl::Status FlushFolder(const std::string& folder);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_OUTPUT_FILE_H_
