#ifndef MOONRING_LUA_HUB_REPOSITORY_FOLDER_H_
#define MOONRING_LUA_HUB_REPOSITORY_FOLDER_H_

// The local copy of a hub's repository: a folder in the cache, in huggingface_hub's layout, so that
// Moonring and huggingface_hub find each other's downloads.
//
//   CACHE/models--ORG--NAME/    datasets--ORG--NAME/ for data sets
//     refs/REVISION             the commit of a branch or tag when it was last downloaded
//     blobs/ETAG                each file once, named by the hub's checksum of its contents:
//                               SHA-256, or git's SHA-1 for small files
//     blobs/ETAG.incomplete     a partial download
//     snapshots/COMMIT/PATH     a link to its blob: ../../blobs/ETAG
//     .no_exist/COMMIT/PATH     a file that was requested but does not exist
//     .listing/COMMIT.json      Moonring's addition: the names of all files of that commit, by
//                               which an offline run can check that a checkout is complete
//   CACHE/.locks/models--ORG--NAME/ETAG.lock    locked (flock) by the process that downloads it
//
// Reading is subject to the file restrictions of --sandbox, like all file access.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::lua {

class RepositoryFolder {
 public:
  // `kind`: "model" or "dataset". INVALID_ARGUMENT for an invalid name: valid is [ORG/]NAME of
  // letters, digits, '-', '_' and '.', without "--" and "..".
  static absl::StatusOr<RepositoryFolder> Create(const std::string& cache, const std::string& kind,
                                                 const std::string& name);

  const std::string& path() const { return path_; }

  // Returns the commit to which a revision (branch or tag) pointed when it was last downloaded;
  // nullopt if it was not downloaded. A commit of 40 digits is returned unchanged.
  absl::StatusOr<std::optional<std::string>> Commit(const std::string& revision) const;
  absl::Status SetCommit(const std::string& revision, const std::string& commit) const;

  // Returns the sorted paths of the complete files of a commit. PERMISSION_DENIED if one of them is
  // a link that leads out of the repository's folder.
  absl::StatusOr<std::vector<std::string>> Files(const std::string& commit) const;
  absl::StatusOr<std::string> Checkout(const std::string& commit) const;
  static constexpr char kCheckouts[] = "snapshots";

  // Returns the names of all files of the commit, as the hub listed them earlier; nullopt if the
  // list is not in the cache.
  absl::StatusOr<std::optional<std::vector<std::string>>> Listing(const std::string& commit) const;
  absl::Status SetListing(const std::string& commit, const std::vector<std::string>& files) const;

  // Return paths in the cache. INVALID_ARGUMENT for a name that could lead out of the repository's
  // folder, and for a malformed commit.
  absl::StatusOr<std::string> Blob(const std::string& etag) const;
  absl::StatusOr<std::string> Lock(const std::string& etag) const;
  absl::StatusOr<std::string> Pointer(const std::string& commit, const std::string& file) const;

  // Makes `file` of a commit a link to a blob that is already in the cache.
  absl::Status Link(const std::string& commit, const std::string& file,
                    const std::string& etag) const;

 private:
  RepositoryFolder(std::string path, std::string locks)
      : path_(std::move(path)), locks_(std::move(locks)) {}

  std::string path_, locks_;
};

// Creates the parent folders of a file.
absl::Status MakeFolderOf(const std::string& file);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_REPOSITORY_FOLDER_H_
