#ifndef MOONRING_BASE_FILES_NAMELESS_FILE_H_
#define MOONRING_BASE_FILES_NAMELESS_FILE_H_

// A file that no folder shows: it goes with its descriptor, however the process ends.

#include <string>

namespace moonring::base {

// A descriptor to read and write, to be closed by the caller; -1, and errno, where `folder` takes
// no file.
int OpenNamelessFile(const std::string& folder);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_NAMELESS_FILE_H_
