#ifndef MOONRING_LUA_HUB_DOWNLOAD_H_
#define MOONRING_LUA_HUB_DOWNLOAD_H_

// Downloads files of a commit, on one thread. First the size and checksum of every file are
// requested, so that the total is known and can be compared with the free disk space. Then up to
// kAtOnce files are downloaded at a time, each in these stages:
//
//   wait for the file's lock -> compute the checksum of bytes that are already on disk -> request
//   the rest, with retries -> rename the blob, and link to it from the commit's folder
//
// One request asks for at most kPiece bytes, because the hub limits the size of its answers.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lua/http/http.h"
#include "lua/hub/answers.h"
#include "lua/hub/blob_file.h"
#include "lua/hub/repository_folder.h"
#include "lua/hub/retries.h"
#include "lua/hub/settings.h"

namespace moonring::lua {

struct DownloadProgress {
  int64_t bytes = 0, total_bytes = 0;  // on disk, and in total, over all requested files
  int64_t fetched = 0;                 // how many of `bytes` this call downloaded
};

// Callbacks of a download.
struct DownloadCalls {
  std::function<void(const DownloadProgress&)> progress;  // about ten times a second
  std::function<void(const std::string& line)> say;       // messages such as a retry
  std::function<bool()> stop;  // called about ten times a second; true cancels
};

class Download {
 public:
  Download(const HubSettings& settings, const DownloadCalls& calls, Http& http, HubName name,
           const RepositoryFolder& folder, std::string commit)
      : settings_(settings),
        calls_(calls),
        http_(http),
        name_(std::move(name)),
        folder_(folder),
        commit_(std::move(commit)) {}
  ~Download() { http_.Drop(); }  // pending requests refer to this object
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  absl::Status Run(const std::vector<std::string>& files);

 private:
  using Clock = std::chrono::steady_clock;

  enum class State { kIdle, kAsked, kReady, kLocked, kFetching, kDone };

  struct Task {
    std::string file, etag, blob, lock;
    int64_t size = -1;
    State state = State::kIdle;
    std::unique_ptr<BlobFile> out;
    Retries retries;
    Clock::time_point not_before, waits_since;
    int64_t fetched = 0;
    bool was_wrong = false, said_waits = false;
  };

  static constexpr int kAtOnce = 8;
  static constexpr int64_t kPiece = int64_t{8} << 30;

  // Advances all files' tasks until each has reached the state `end`.
  absl::Status Drive(State end);
  absl::Status Advance(Task& task);
  std::string UrlOf(const Task& task) const;

  void AskSize(Task& task);
  absl::Status TakeSize(Task& task, const HttpAnswer& answer);
  absl::Status CheckRoom() const;

  absl::Status TryLock(Task& task);
  void RequestPiece(Task& task);
  absl::Status TakeHead(Task& task, const HttpAnswer& answer);
  absl::Status TakeBytes(Task& task, absl::string_view bytes);
  absl::Status EndPiece(Task& task, int64_t before, const absl::StatusOr<HttpAnswer>& answer);
  absl::Status Complete(Task& task);
  // Schedules a retry of a failed request, which begins in `state` after a pause; returns the error
  // if there were too many failures.
  absl::Status Retry(Task& task, State state, const absl::StatusOr<HttpAnswer>& answer);
  void Tell();

  const HubSettings& settings_;
  const DownloadCalls& calls_;
  Http& http_;
  const HubName name_;
  const RepositoryFolder& folder_;
  const std::string commit_;
  std::vector<std::unique_ptr<Task>> tasks_;
  absl::Status failure_;  // an error in processing answers; ends all tasks
  Clock::time_point told_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_DOWNLOAD_H_
