#include "lua/hub/repository_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/files/inside_name.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "base/text/visible_text.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 96;  // the hub's limit

bool IsWord(absl::string_view text) {
  return !text.empty() && text.size() <= kLongestName && text[0] != '.' && text[0] != '-' &&
         text.back() != '.' && text.back() != '-' && !absl::StrContains(text, "--") &&
         !absl::StrContains(text, "..") && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

absl::Status CheckCommit(absl::string_view text) {
  if (base::IsCommit(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", base::VisibleText(text), "' is no commit, 40 hexadecimal digits"));
}

absl::Status CheckEtag(absl::string_view etag) {
  if (IsWord(etag)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the hub's name for a file's contents (ETag), '", base::VisibleText(etag),
                   "', is no word of letters, digits, '-', '_' and '.'"));
}

// Reads a file; nullopt if it does not exist.
absl::StatusOr<std::optional<std::string>> Read(const std::string& path) {
  RETURN_IF_ERROR(base::CheckWholeFile(path));
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::PermissionDeniedError(absl::StrCat(path, ": cannot be read"));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

absl::Status MakeFolderOf(const std::string& file) {
  RETURN_IF_ERROR(base::CheckWriting(file));
  const fs::path folder = fs::path(file).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("cannot make the folder ", folder.string()));
}

absl::StatusOr<RepositoryFolder> RepositoryFolder::Create(const std::string& cache,
                                                          const std::string& kind,
                                                          const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  if (parts.size() > 2 || name.size() > kLongestName ||
      !std::all_of(parts.begin(), parts.end(), IsWord)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name, "' is no name of a repository, ORG/NAME of letters, digits, '-', '_' and '.'"));
  }
  const std::string folder = absl::StrCat(kind, "s--", absl::StrReplaceAll(name, {{"/", "--"}}));
  return RepositoryFolder(absl::StrCat(cache, "/", folder),
                          absl::StrCat(cache, "/.locks/", folder));
}

absl::StatusOr<std::optional<std::string>> RepositoryFolder::Commit(
    const std::string& revision) const {
  if (base::IsCommit(revision)) return revision;
  RETURN_IF_ERROR(base::CheckInsideName(revision), "revision");
  ASSIGN_OR_RETURN(std::optional<std::string> text, Read(absl::StrCat(path_, "/refs/", revision)));
  if (text.has_value()) text = std::string(absl::StripAsciiWhitespace(*text));
  if (text.has_value() && !base::IsCommit(*text)) return std::nullopt;
  return text;
}

absl::Status RepositoryFolder::SetCommit(const std::string& revision,
                                         const std::string& commit) const {
  RETURN_IF_ERROR(CheckCommit(commit));
  ASSIGN_OR_RETURN(const std::optional<std::string> before, Commit(revision));
  if (before == commit) return absl::OkStatus();
  const std::string path = absl::StrCat(path_, "/refs/", revision);
  RETURN_IF_ERROR(MakeFolderOf(path));
  return base::WriteWhole(path, commit);
}

absl::StatusOr<std::string> RepositoryFolder::Checkout(const std::string& commit) const {
  RETURN_IF_ERROR(CheckCommit(commit));
  return absl::StrCat(path_, "/", kCheckouts, "/", commit);
}

absl::StatusOr<std::vector<std::string>> RepositoryFolder::Files(const std::string& commit) const {
  std::vector<std::string> files;
  ASSIGN_OR_RETURN(const fs::path checkout, Checkout(commit));
  RETURN_IF_ERROR(base::CheckReading(checkout));
  std::error_code error;
  if (!fs::is_directory(checkout, error)) return files;
  for (fs::recursive_directory_iterator entry(checkout, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;  // for a link whose blob is missing
    if (!entry->is_regular_file(ignored)) continue;
    // The link must lead to a blob of this repository. In a cache that was unpacked from an
    // archive, or that several users share, a link could lead to any file of the user.
    RETURN_IF_ERROR(base::CheckStaysBelow(path_, entry->path().string()));
    files.push_back(entry->path().lexically_relative(checkout).string());
  }
  if (error) return absl::ErrnoToStatus(error.value(), checkout.string());
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::optional<std::vector<std::string>>> RepositoryFolder::Listing(
    const std::string& commit) const {
  RETURN_IF_ERROR(CheckCommit(commit));
  ASSIGN_OR_RETURN(const std::optional<std::string> text,
                   Read(absl::StrCat(path_, "/.listing/", commit, ".json")));
  if (!text.has_value()) return std::nullopt;
  const auto value = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> files;
  if (!value.is_array()) return std::nullopt;
  for (const auto& file : value) {
    if (!file.is_string() || !base::CheckInsideName(file.get_ref<const std::string&>()).ok())
      return std::nullopt;
    files.push_back(file);
  }
  return files;
}

absl::Status RepositoryFolder::SetListing(const std::string& commit,
                                          const std::vector<std::string>& files) const {
  RETURN_IF_ERROR(CheckCommit(commit));
  for (const std::string& file : files) RETURN_IF_ERROR(base::CheckInsideName(file));
  const std::string path = absl::StrCat(path_, "/.listing/", commit, ".json");
  RETURN_IF_ERROR(MakeFolderOf(path));
  return base::WriteWhole(path, nlohmann::json(files).dump() + "\n");
}

absl::StatusOr<std::string> RepositoryFolder::Blob(const std::string& etag) const {
  RETURN_IF_ERROR(CheckEtag(etag));
  return absl::StrCat(path_, "/blobs/", etag);
}

absl::StatusOr<std::string> RepositoryFolder::Lock(const std::string& etag) const {
  RETURN_IF_ERROR(CheckEtag(etag));
  return absl::StrCat(locks_, "/", etag, ".lock");
}

absl::StatusOr<std::string> RepositoryFolder::Pointer(const std::string& commit,
                                                      const std::string& file) const {
  RETURN_IF_ERROR(base::CheckInsideName(file));
  ASSIGN_OR_RETURN(const std::string checkout, Checkout(commit));
  return absl::StrCat(checkout, "/", file);
}

absl::Status RepositoryFolder::Link(const std::string& commit, const std::string& file,
                                    const std::string& etag) const {
  ASSIGN_OR_RETURN(const std::string pointer, Pointer(commit, file));
  ASSIGN_OR_RETURN(const std::string blob, Blob(etag));
  RETURN_IF_ERROR(MakeFolderOf(pointer));
  const std::string target =
      fs::path(blob).lexically_relative(fs::path(pointer).parent_path()).string();
  for (int i = 0; i < 2; ++i) {
    if (symlink(target.c_str(), pointer.c_str()) == 0) return absl::OkStatus();
    if (errno != EEXIST) break;
    std::error_code ignored;
    if (fs::exists(pointer, ignored)) return absl::OkStatus();  // another process created it first
    unlink(pointer.c_str());                                    // its blob is missing
  }
  // On a file system without links the blob is moved to the place of the link, as huggingface_hub
  // does.
  if ((errno == EPERM || errno == EOPNOTSUPP) && std::rename(blob.c_str(), pointer.c_str()) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, absl::StrCat(pointer, ": cannot be written"));
}

}  // namespace moonring::lua
