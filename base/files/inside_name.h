#ifndef MOONRING_BASE_FILES_INSIDE_NAME_H_
#define MOONRING_BASE_FILES_INSIDE_NAME_H_

// Names that somebody else gives to files: a hub's listing, an index of shards, a manifest, a
// description of data. Joined to a folder's path, such a name is to stay in that folder.
//
// Fails with INVALID_ARGUMENT: "'../x' is no name inside a folder: it has the part '..'".

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

// Refuses a name that is empty or absolute, has an empty part, "." or "..", a NUL or any other
// control character. Slashes between parts are allowed.
absl::Status CheckInsideName(absl::string_view name);

// As CheckInsideName, and refuses slashes: the name of a file directly in the folder.
absl::Status CheckPlainName(absl::string_view name);

// Refuses a path that leads out of `folder` once links are followed, and the folder itself; a
// missing file below it is fine. For unpacked or downloaded files: PERMISSION_DENIED, with where
// the path leads.
absl::Status CheckStaysBelow(const std::string& folder, const std::string& path);

// Whether a text is a commit as Git writes it: 40 hexadecimal digits in lower case.
bool IsCommit(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_INSIDE_NAME_H_
