#ifndef MOONRING_BASE_FILES_INPUT_FILE_H_
#define MOONRING_BASE_FILES_INPUT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace moonring::base {

// Checks a file that is about to be opened. Returns the error of CheckReading (confinement.h) if
// this thread may not read the file, and INVALID_ARGUMENT if it is a pipe, a socket or a device:
// opening a pipe would block until somebody writes, and a device may have no end. A folder or a
// missing file passes; the caller must report it.
absl::Status CheckInputFile(const std::string& path);

// Size limits in bytes for files that are read into memory whole. kMostWholeFile: tables,
// tokenizers, logs and states; kMostWrittenFile: files written by hand, i.e. scripts and
// configurations. A limit is needed because a sparse file takes no disk space, but fills memory
// when it is read.
inline constexpr int64_t kMostWholeFile = int64_t{1} << 30, kMostWrittenFile = int64_t{64} << 20;

// Returns INVALID_ARGUMENT, with the size in the message, if the file has more than `most` bytes.
absl::Status CheckFileSize(const std::string& path, int64_t most);
// Calls CheckInputFile, then CheckFileSize; returns the first error.
absl::Status CheckWholeFile(const std::string& path, int64_t most = kMostWholeFile);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_INPUT_FILE_H_
