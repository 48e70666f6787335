#ifndef MOONRING_LUA_HUB_DOWNLOAD_H_
#define MOONRING_LUA_HUB_DOWNLOAD_H_

// The download of some files of a commit, on one thread. First each is asked for its size and
// checksum, so that what is coming is known and fits the disk; then they come, kAtOnce at a time:
//
//   wait for the lock -> the checksum of what is there -> requests, each behind the bytes that are
//   there, with retries -> its name, a link in the checkout
//
// A request asks for at most kPiece bytes: the hub sends no larger answer, whatever the file's
// size.

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
  int64_t bytes = 0, total_bytes = 0;  // of all files that were asked for
  int64_t fetched = 0;                 // of these bytes, what came now
};

// What a download tells whoever waits for it.
struct DownloadCalls {
  std::function<void(const DownloadProgress&)> progress;  // some ten times a second
  std::function<void(const std::string& line)> say;       // what is worth a line: a retry
  std::function<bool()> stop;                             // asked as often
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
  ~Download() { http_.Drop(); }  // what is open refers to it
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

  // Advances all tasks until none is in a state before `end`.
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
  // Goes back to `state` after a pause, or fails.
  absl::Status Retry(Task& task, State state, const absl::StatusOr<HttpAnswer>& answer);
  void Tell();

  const HubSettings& settings_;
  const DownloadCalls& calls_;
  Http& http_;
  const HubName name_;
  const RepositoryFolder& folder_;
  const std::string commit_;
  std::vector<std::unique_ptr<Task>> tasks_;
  absl::Status failure_;  // of what answers to requests; ends all
  Clock::time_point told_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HUB_DOWNLOAD_H_
