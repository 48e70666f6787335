#ifndef MOONRING_BASE_FILES_NAMELESS_FILE_H_
#define MOONRING_BASE_FILES_NAMELESS_FILE_H_

// A file without a name in any folder: it is deleted when its descriptor is closed, however the
// process ends.

#include <string>

namespace moonring::base {

// Returns a descriptor for reading and writing, which the caller must close; -1, with errno, if no
// file can be created in `folder`.
int OpenNamelessFile(const std::string& folder);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_NAMELESS_FILE_H_
