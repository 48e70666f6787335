#ifndef MOONRING_LUA_HUB_HUB_H_
#define MOONRING_LUA_HUB_HUB_H_

// A repository of models or data on a hub: what files it has, and their download into the cache.
//
//   GET  ENDPOINT/api/models/NAME/revision/REVISION     {"sha": COMMIT, "siblings":
//   [{"rfilename"}]} HEAD ENDPOINT/NAME/resolve/COMMIT/FILE               X-Linked-Etag or ETag,
//   X-Linked-Size or
//                                                        Content-Length
//   GET  ENDPOINT/NAME/resolve/COMMIT/FILE               the file, large ones behind a redirect
//
// (api/datasets/NAME and datasets/NAME for data sets.) What of a file is there already is not asked
// for again (Range). Files come several at once; whoever else downloads one is waited for.
//
// Fails, in words that say what to do: NOT_FOUND (no such repository, revision or file),
// PERMISSION_DENIED (gated; a token is wanted, or is not valid), UNAVAILABLE (nobody is to be
// reached, the hub asks to wait or fails, after retries), RESOURCE_EXHAUSTED (a full disk),
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
  std::vector<std::string> files;  // their paths, sorted
};

class Hub {
 public:
  static absl::StatusOr<std::unique_ptr<Hub>> Open(HubSettings settings, DownloadCalls calls);

  // A revision's commit and files.
  absl::StatusOr<HubListing> List(const HubName& name, const std::string& revision);

  // Makes those files of a commit's checkout that are not there yet.
  absl::Status Fetch(const HubName& name, const RepositoryFolder& folder, const std::string& commit,
                     const std::vector<std::string>& files);

 private:
  Hub(HubSettings settings, DownloadCalls calls, std::unique_ptr<Http> http)
      : settings_(std::move(settings)), calls_(std::move(calls)), http_(std::move(http)) {}

  // With retries.
  absl::StatusOr<HttpAnswer> Ask(HttpRequest request);
  // Names of repositories that the hub finds; none where it does not answer.
  std::vector<std::string> Search(const std::string& kind, const std::string& query);
  // " (did you mean ORG/OTHER?)", of what the hub finds by either part of a name; or "".
  std::string Suggestion(const HubName& name);

  HubSettings settings_;
  DownloadCalls calls_;
  std::unique_ptr<Http> http_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_HUB_H_
