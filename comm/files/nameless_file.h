#ifndef MOONRING_COMM_FILES_NAMELESS_FILE_H_
#define MOONRING_COMM_FILES_NAMELESS_FILE_H_

// A file that no folder shows: it goes with its descriptor, however the process ends.

#include <string>

namespace moonring::comm {

// A descriptor to read and write, to be closed by the caller; -1, and errno, where `folder` takes
// no file.
int OpenNamelessFile(const std::string& folder);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_FILES_NAMELESS_FILE_H_
