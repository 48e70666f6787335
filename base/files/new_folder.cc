#include "base/files/new_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/files/confinement.h"
#include "base/status/status_macros.h"

namespace moonring::base {
namespace {

namespace fs = std::filesystem;

// The missing folders on the way to a path, the outermost first.
std::vector<std::string> MissingFolders(const std::string& path) {
  std::vector<std::string> missing;
  std::error_code code;
  fs::path at = fs::absolute(path, code).lexically_normal();
  if (!at.has_filename()) at = at.parent_path();
  for (; !at.empty() && !fs::exists(fs::symlink_status(at, code)); at = at.parent_path())
    missing.push_back(at.string());
  std::reverse(missing.begin(), missing.end());
  return missing;
}

absl::Status CannotMake(const std::string& folder, absl::string_view why) {
  return absl::PermissionDeniedError(
      absl::StrCat("cannot make the folder ", folder, why.empty() ? "" : ": ", why));
}

absl::Status NotWritable(const std::string& folder) {
  return absl::PermissionDeniedError(absl::StrCat("the folder ", folder, " is not writable"));
}

}  // namespace

bool IsWritableFolder(const std::string& folder) {
  const int unnamed = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (unnamed >= 0) return close(unnamed), true;
  const bool unsupported = errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT;
  return unsupported && access(folder.c_str(), W_OK | X_OK) == 0;
}

absl::StatusOr<std::vector<std::string>> MakeFolder(const std::string& folder) {
  RETURN_IF_ERROR(CheckWriting(folder));
  std::vector<std::string> missing = MissingFolders(folder);
  std::error_code code, unknown;
  fs::create_directories(folder, code);
  if (!fs::is_directory(folder, unknown)) return CannotMake(folder, code ? code.message() : "");
  if (!IsWritableFolder(folder)) return NotWritable(folder);
  return missing;
}

absl::Status CheckMakeFolder(const std::string& folder) {
  RETURN_IF_ERROR(CheckWriting(folder));
  const std::vector<std::string> missing = MissingFolders(folder);
  std::error_code unknown;
  if (missing.empty()) {
    if (!fs::is_directory(folder, unknown)) return CannotMake(folder, "Not a directory");
    return IsWritableFolder(folder) ? absl::OkStatus() : NotWritable(folder);
  }
  const fs::path parent = fs::path(missing.front()).parent_path();
  if (!fs::is_directory(parent, unknown)) return CannotMake(folder, "Not a directory");
  if (!IsWritableFolder(parent.string())) return CannotMake(folder, "Permission denied");
  return absl::OkStatus();
}

void RemoveEmptyFolders(const std::vector<std::string>& made) {
  for (auto folder = made.rbegin(); folder != made.rend(); ++folder) {
    if (rmdir(folder->c_str()) != 0) return;
  }
}

}  // namespace moonring::base
