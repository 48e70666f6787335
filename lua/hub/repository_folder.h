#ifndef MOONRING_LUA_HUB_REPOSITORY_FOLDER_H_
#define MOONRING_LUA_HUB_REPOSITORY_FOLDER_H_

// What of a repository is on this machine: a folder of the hub's cache, laid out as huggingface_hub
// lays it out, so that either finds what the other has downloaded.
//
//   CACHE/models--ORG--NAME/           datasets--ORG--NAME/ for data sets
//     refs/REVISION                    the commit that a branch or a tag stood for when it was
//     asked blobs/ETAG                       each file once, by the hub's name for its contents:
//                                      its SHA-256, or of small files git's SHA-1
//     blobs/ETAG.incomplete            what there is of one that is being downloaded
//     snapshots/COMMIT/PATH            a link to its blob: ../../blobs/ETAG
//     .no_exist/COMMIT/PATH            somebody asked for it, and it is not there
//     .listing/COMMIT.json             ours: the names of all files of that commit. With it is
//                                      known without the hub whether a checkout has all that it
//                                      should
//   CACHE/.locks/models--ORG--NAME/ETAG.lock   locked (flock) by who downloads it
//
// Reading asks the thread's confinement, as all reading does.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace moonring::lua {

class RepositoryFolder {
 public:
  // `kind`: "model" or "dataset". INVALID_ARGUMENT where `name` is no name of a repository:
  // [ORG/]NAME of letters, digits, '-', '_' and '.', neither "--" nor "..".
  static absl::StatusOr<RepositoryFolder> Create(const std::string& cache, const std::string& kind,
                                                 const std::string& name);

  const std::string& path() const { return path_; }

  // The commit that a revision stood for when it was last downloaded: a branch, a tag, or a commit
  // of 40 digits, which is itself. Nothing where it was not.
  absl::StatusOr<std::optional<std::string>> Commit(const std::string& revision) const;
  absl::Status SetCommit(const std::string& revision, const std::string& commit) const;

  // The files of a checkout that are there whole, by their paths in it, sorted. PERMISSION_DENIED
  // where one is a link that leads out of the repository's folder.
  absl::StatusOr<std::vector<std::string>> Files(const std::string& commit) const;
  absl::StatusOr<std::string> Checkout(const std::string& commit) const;
  static constexpr char kCheckouts[] = "snapshots";

  // All of the commit's files, where they were asked for before.
  absl::StatusOr<std::optional<std::vector<std::string>>> Listing(const std::string& commit) const;
  absl::Status SetListing(const std::string& commit, const std::vector<std::string>& files) const;

  // INVALID_ARGUMENT for a name that could lead out of the folder, and for a malformed commit.
  absl::StatusOr<std::string> Blob(const std::string& etag) const;
  absl::StatusOr<std::string> Lock(const std::string& etag) const;
  absl::StatusOr<std::string> Pointer(const std::string& commit, const std::string& file) const;

  // Makes a file of a checkout of a blob that is there.
  absl::Status Link(const std::string& commit, const std::string& file,
                    const std::string& etag) const;

 private:
  RepositoryFolder(std::string path, std::string locks)
      : path_(std::move(path)), locks_(std::move(locks)) {}

  std::string path_, locks_;
};

// Makes the folder that a file is to lie in.
absl::Status MakeFolderOf(const std::string& file);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_REPOSITORY_FOLDER_H_
