#ifndef MOONRING_LUA_HUB_HUB_H_
#define MOONRING_LUA_HUB_HUB_H_

// A repository of models or data on a hub: lists its files and downloads them into the cache.
//
//   GET  ENDPOINT/api/models/NAME/revision/REVISION   {"sha": COMMIT, "siblings": [{"rfilename"}]}
//   HEAD ENDPOINT/NAME/resolve/COMMIT/FILE            X-Linked-Etag or ETag,
//                                                     X-Linked-Size or Content-Length
//   GET  ENDPOINT/NAME/resolve/COMMIT/FILE            the file; large ones by a redirect
//
// (api/datasets/NAME and datasets/NAME for data sets.) Existing bytes of a file are not requested
// once more (Range). Several files are downloaded at the same time; a file that another process
// downloads is waited for.
//
// Errors, with a text that says what to do: NOT_FOUND (no such repository, revision or file),
// PERMISSION_DENIED (gated; a token is required or invalid), UNAVAILABLE (the hub cannot be
// reached, rate limiting or server errors, after retries), RESOURCE_EXHAUSTED (a full disk),
// DATA_LOSS (a wrong checksum, twice), CANCELLED.

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

  // Asks for a revision's commit and files.
  absl::StatusOr<HubListing> List(const HubName& name, const std::string& revision);

  // Downloads those files of a commit that are missing in its checkout.
  absl::Status Fetch(const HubName& name, const RepositoryFolder& folder, const std::string& commit,
                     const std::vector<std::string>& files);

 private:
  Hub(HubSettings settings, DownloadCalls calls, std::unique_ptr<Http> http)
      : settings_(std::move(settings)), calls_(std::move(calls)), http_(std::move(http)) {}

  // Makes a request with retries.
  absl::StatusOr<HttpAnswer> Ask(HttpRequest request);
  // Names of repositories that the hub's search finds; empty if it does not answer.
  std::vector<std::string> Search(const std::string& kind, const std::string& query);
  // Returns " (did you mean ORG/OTHER?)" from a search for either part of the name, or "".
  std::string Suggestion(const HubName& name);

  HubSettings settings_;
  DownloadCalls calls_;
  std::unique_ptr<Http> http_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_HUB_H_
