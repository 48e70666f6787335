#ifndef MOONRING_BASE_FILES_NEW_FOLDER_H_
#define MOONRING_BASE_FILES_NEW_FOLDER_H_

// A folder that is made with those above it, checked before it is made, and removed again where
// nothing has come into it.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::base {

// Whether a file can be written in a folder. Leaves no name there for even a moment: another rank
// may be looking whether it is empty.
bool IsWritableFolder(const std::string& folder);

// Makes a folder and those above it, and proves that a file can be written in it. Gives the
// absolute paths of those that were made, the outermost first. PERMISSION_DENIED.
absl::StatusOr<std::vector<std::string>> MakeFolder(const std::string& folder);

// Fails as MakeFolder would; makes nothing.
absl::Status CheckMakeFolder(const std::string& folder);

// Removes the folders that MakeFolder made, the innermost first, up to one that is not empty.
void RemoveEmptyFolders(const std::vector<std::string>& made);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_NEW_FOLDER_H_
