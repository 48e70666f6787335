#ifndef MOONRING_COMM_FILES_INPUT_FILE_H_
#define MOONRING_COMM_FILES_INPUT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace moonring::comm {

// For a file that is about to be opened: as CheckReading (confinement.h), and INVALID_ARGUMENT
// where it is a pipe, a socket or a device. A pipe would hold up whoever opens it until somebody
// writes, and a device may have no end. A folder, or nothing, is for the caller to speak of.
absl::Status CheckInputFile(const std::string& path);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_FILES_INPUT_FILE_H_
