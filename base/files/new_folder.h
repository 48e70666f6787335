#ifndef MOONRING_BASE_FILES_NEW_FOLDER_H_
#define MOONRING_BASE_FILES_NEW_FOLDER_H_

// Creates a folder together with its missing parents, checks beforehand whether this is possible,
// and removes these folders if they stayed empty.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::base {

// Whether a file can be written in a folder. The check never creates a name in it, because another
// rank may be checking whether the folder is empty.
bool IsWritableFolder(const std::string& folder);

// Creates a folder and its missing parents, and checks that a file can be written in it. Returns
// the absolute paths of the created folders, the outermost first. PERMISSION_DENIED on failure.
absl::StatusOr<std::vector<std::string>> MakeFolder(const std::string& folder);

// Returns the error that MakeFolder would return, without creating anything.
absl::Status CheckMakeFolder(const std::string& folder);

// Removes the folders that MakeFolder created, the innermost first, until one is not empty.
void RemoveEmptyFolders(const std::vector<std::string>& made);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_NEW_FOLDER_H_
