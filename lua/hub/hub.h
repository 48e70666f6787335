#ifndef MOONRING_LUA_HUB_HUB_H_
#define MOONRING_LUA_HUB_HUB_H_

// A repository of models or data sets on a hub: lists its files and downloads them into the cache.
//
//   GET  ENDPOINT/api/models/NAME/revision/REVISION   {"sha": COMMIT, "siblings": [{"rfilename"}]}
//   HEAD ENDPOINT/NAME/resolve/COMMIT/FILE            X-Linked-Etag or ETag,
//                                                     X-Linked-Size or Content-Length
//   GET  ENDPOINT/NAME/resolve/COMMIT/FILE            the file; large ones by a redirect
//
// (For data sets the paths are api/datasets/NAME and datasets/NAME.) Bytes that are already in the
// cache are not requested again (header Range). Several files are downloaded at the same time. If
// another process is downloading a file, this process waits for it.
//
// Errors have a text that says what to do: NOT_FOUND (no such repository, revision or file),
// PERMISSION_DENIED (a gated repository; a missing or invalid token), UNAVAILABLE (the hub cannot
// be reached, limits the rate, or has server errors, after retries), RESOURCE_EXHAUSTED (a full
// disk), DATA_LOSS (a wrong checksum, twice), CANCELLED.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lua/http/http.h"
#include "lua/hub/answers.h"
#include "lua/hub/download.h"
#include "lua/hub/repository_folder.h"
#include "lua/hub/settings.h"

namespace moonring::lua {

struct HubListing {
  std::string commit;
  std::vector<std::string> files;  // sorted paths
};

class Hub {
 public:
  static absl::StatusOr<std::unique_ptr<Hub>> Open(HubSettings settings, DownloadCalls calls);

  // Asks the hub for a revision's commit and the names of its files.
  absl::StatusOr<HubListing> List(const HubName& name, const std::string& revision);

  // Downloads those of the given files that are missing in the local copy of the commit.
  absl::Status Fetch(const HubName& name, const RepositoryFolder& folder, const std::string& commit,
                     const std::vector<std::string>& files);

 private:
  Hub(HubSettings settings, DownloadCalls calls, std::unique_ptr<Http> http)
      : settings_(std::move(settings)), calls_(std::move(calls)), http_(std::move(http)) {}

  // Makes one request, and repeats it after temporary failures.
  absl::StatusOr<HttpAnswer> Ask(HttpRequest request);
  // Returns names of repositories that the hub's search finds for `query`; empty if the hub does
  // not answer.
  std::vector<std::string> Search(const std::string& kind, const std::string& query);
  // Searches the hub for either part of ORG/NAME. Returns " (did you mean ORG/OTHER?)", or "" if
  // nothing was found.
  std::string Suggestion(const HubName& name);

  HubSettings settings_;
  DownloadCalls calls_;
  std::unique_ptr<Http> http_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_HUB_H_
