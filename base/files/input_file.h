#ifndef MOONRING_BASE_FILES_INPUT_FILE_H_
#define MOONRING_BASE_FILES_INPUT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace moonring::base {

// For a file that is about to be opened: as CheckReading (confinement.h), and INVALID_ARGUMENT
// where it is a pipe, a socket or a device. A pipe would hold up whoever opens it until somebody
// writes, and a device may have no end. A folder, or nothing, is for the caller to speak of.
absl::Status CheckInputFile(const std::string& path);

// Size limits in bytes for files that are read into memory whole: tables, tokenizers, logs and
// states; and files that people write by hand, scripts and configurations. A sparse file takes no
// disk space, but fills memory when it is read.
inline constexpr int64_t kMostWholeFile = int64_t{1} << 30, kMostWrittenFile = int64_t{64} << 20;

// INVALID_ARGUMENT, with the size, where the file has more than `most` bytes.
absl::Status CheckFileSize(const std::string& path, int64_t most);
// As CheckInputFile and CheckFileSize.
absl::Status CheckWholeFile(const std::string& path, int64_t most = kMostWholeFile);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_INPUT_FILE_H_
