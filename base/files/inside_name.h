#ifndef MOONRING_BASE_FILES_INSIDE_NAME_H_
#define MOONRING_BASE_FILES_INSIDE_NAME_H_

// Checks of file names from external sources: a hub's listing, an index of shards, a manifest, a
// description of data. A path that is made from a folder and such a name must be inside that
// folder.
//
// Fails with INVALID_ARGUMENT: "'../x' is no name inside a folder: it has the part '..'".

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace moonring::base {

// Refuses a name that is empty or absolute, or that has an empty component, "." or "..", a NUL or
// any other control character. Slashes between components are allowed.
absl::Status CheckInsideName(absl::string_view name);

// CheckInsideName, and also refuses slashes: for the name of a file directly in the folder.
absl::Status CheckPlainName(absl::string_view name);

// Refuses a path that is not below `folder` after links are resolved; the file may be missing. For
// unpacked or downloaded files. PERMISSION_DENIED, with the resolved path.
absl::Status CheckStaysBelow(const std::string& folder, const std::string& path);

// Whether a text is a commit hash as Git writes it: 40 hexadecimal digits in lower case.
bool IsCommit(absl::string_view text);

}  // namespace moonring::base

#endif  // MOONRING_BASE_FILES_INSIDE_NAME_H_
