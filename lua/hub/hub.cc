#include "lua/hub/hub.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/inside_name.h"
#include "base/status/status_macros.h"
#include "base/text/nearest_name.h"
#include "base/text/visible_text.h"
#include "lua/hub/retries.h"

namespace moonring::lua {
namespace {

// Checks the commit in the hub's answer. It becomes the name of a folder, so it must have the right
// form; if the requested revision is a commit, the answer must be the same commit.
absl::Status CheckListed(const HubSettings& settings, const HubName& name,
                         const std::string& revision, const std::string& commit) {
  if (!base::IsCommit(commit)) {
    return absl::FailedPreconditionError(absl::StrCat(
        settings.endpoint, " does not answer as a hub does (HF_ENDPOINT): of '", name.name,
        "' it gives the commit '", base::VisibleText(commit), "', expected 40 hexadecimal digits"));
  }
  const std::string asked = absl::AsciiStrToLower(revision);
  if (base::IsCommit(asked) && asked != commit) {
    return absl::FailedPreconditionError(absl::StrCat(settings.endpoint, ": of '", name.name,
                                                      "' commit ", asked,
                                                      " was asked for, and it gives ", commit));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Hub>> Hub::Open(HubSettings settings, DownloadCalls calls) {
  ASSIGN_OR_RETURN(std::unique_ptr<Http> http, Http::Open());
  return std::unique_ptr<Hub>(new Hub(std::move(settings), std::move(calls), std::move(http)));
}

absl::StatusOr<HttpAnswer> Hub::Ask(HttpRequest request) {
  Retries retries;
  while (true) {
    absl::StatusOr<HttpAnswer> answer = http_->Ask(request, calls_.stop);
    const auto pause = retries.After(answer);
    if (!pause.has_value()) return answer;
    const auto until = std::chrono::steady_clock::now() + *pause;
    while (std::chrono::steady_clock::now() < until) {
      if (calls_.stop()) return absl::CancelledError("the download was cancelled");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

std::vector<std::string> Hub::Search(const std::string& kind, const std::string& query) {
  std::vector<std::string> names;
  absl::StatusOr<HttpAnswer> answer =
      http_->Ask({.url = absl::StrCat(settings_.endpoint, "/api/", kind, "s?limit=100&", query),
                  .connect_seconds = settings_.etag_timeout,
                  .idle_seconds = settings_.etag_timeout},
                 calls_.stop);
  if (!answer.ok() || answer->code != 200) return names;
  const auto found = nlohmann::json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (!found.is_array()) return names;
  for (const auto& each : found) {
    if (each.is_object() && each.contains("id") && each["id"].is_string())
      names.push_back(each["id"]);
  }
  return names;
}

std::string Hub::Suggestion(const HubName& name) {
  const std::vector<std::string> parts = absl::StrSplit(name.name, '/');
  std::vector<std::string> names =
      Search(name.kind, absl::StrCat("search=", Quoted(parts.back(), "")));
  const std::string same_words = names.empty() ? "" : absl::StrCat(" (there is ", names[0], ")");
  if (parts.size() == 2) {
    for (std::string& each : Search(name.kind, absl::StrCat("author=", Quoted(parts[0], ""))))
      names.push_back(std::move(each));
  }
  const std::string nearest = base::DidYouMean(name.name, names);
  return nearest.empty() ? same_words : nearest;
}

absl::StatusOr<HubListing> Hub::List(const HubName& name, const std::string& revision) {
  absl::StatusOr<HttpAnswer> answer =
      Ask({.url = absl::StrCat(settings_.endpoint, "/api/", name.kind, "s/", name.name,
                               "/revision/", Quoted(revision, "")),
           .token = settings_.token,
           .connect_seconds = settings_.etag_timeout,
           .idle_seconds = settings_.etag_timeout});
  if (!answer.ok()) return NoAnswer(settings_, name, answer.status());
  if (answer->code != 200) {
    const absl::Status refusal =
        Refusal(settings_, name, absl::StrCat("revision '", revision, "'"), *answer);
    const bool has_it = answer->header("x-error-code") == "RevisionNotFound";
    if (!absl::IsNotFound(refusal) || has_it) return refusal;
    return absl::NotFoundError(absl::StrCat(refusal.message(), Suggestion(name)));
  }
  const auto info = nlohmann::json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  HubListing listing;
  const bool whole = info.is_object() && info.contains("sha") && info["sha"].is_string() &&
                     info.contains("siblings") && info["siblings"].is_array();
  if (!whole) {
    return absl::FailedPreconditionError(
        absl::StrCat(settings_.endpoint, " does not answer as a hub does (HF_ENDPOINT)"));
  }
  listing.commit = info["sha"];
  RETURN_IF_ERROR(CheckListed(settings_, name, revision, listing.commit));
  for (const auto& file : info["siblings"]) {
    if (file.is_object() && file.contains("rfilename") && file["rfilename"].is_string())
      listing.files.push_back(file["rfilename"]);
  }
  for (const std::string& file : listing.files) {
    RETURN_IF_ERROR(base::CheckInsideName(file), settings_.endpoint, ": '", name.name,
                    "': a file of its listing");
  }
  std::sort(listing.files.begin(), listing.files.end());
  return listing;
}

absl::Status Hub::Fetch(const HubName& name, const RepositoryFolder& folder,
                        const std::string& commit, const std::vector<std::string>& files) {
  Download download(settings_, calls_, *http_, name, folder, commit);
  return download.Run(files);
}

}  // namespace moonring::lua
