#ifndef MOONRING_LUA_HUB_REPOSITORY_FOLDER_H_
#define MOONRING_LUA_HUB_REPOSITORY_FOLDER_H_

// The local copy of a repository: a folder in the hub's cache, in huggingface_hub's layout, so that
// each program finds what the other has downloaded.
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
// Reading is subject to the thread's confinement, like all file access.

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

  // The commit of a revision (branch or tag) when it was last downloaded; a commit of 40 digits is
  // returned unchanged. nullopt if it was not downloaded.
  absl::StatusOr<std::optional<std::string>> Commit(const std::string& revision) const;
  absl::Status SetCommit(const std::string& revision, const std::string& commit) const;

  // The sorted paths of the complete files in a checkout. PERMISSION_DENIED if one is a link that
  // leads out of the repository's folder.
  absl::StatusOr<std::vector<std::string>> Files(const std::string& commit) const;
  absl::StatusOr<std::string> Checkout(const std::string& commit) const;
  static constexpr char kCheckouts[] = "snapshots";

  // All files of the commit, if they were listed before.
  absl::StatusOr<std::optional<std::vector<std::string>>> Listing(const std::string& commit) const;
  absl::Status SetListing(const std::string& commit, const std::vector<std::string>& files) const;

  // Paths in the cache. INVALID_ARGUMENT for a name that could lead out of the folder, and for a
  // malformed commit.
  absl::StatusOr<std::string> Blob(const std::string& etag) const;
  absl::StatusOr<std::string> Lock(const std::string& etag) const;
  absl::StatusOr<std::string> Pointer(const std::string& commit, const std::string& file) const;

  // Creates a file of a checkout as a link to an existing blob.
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
