#include "lua/hub/download.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/status/status_macros.h"
#include "lua/hub/answers.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kTick(100);
constexpr std::chrono::seconds kPatience(3);  // wait before a message about a locked file

// Removes the prefix W/ and the quotes from an ETag header: W/"abc", "abc" -> abc.
std::string PlainEtag(absl::string_view etag) {
  etag = absl::StripPrefix(etag, "W/");
  return std::string(absl::StripSuffix(absl::StripPrefix(etag, "\""), "\""));
}

std::string Gigabytes(int64_t bytes) { return absl::StrFormat("%.2f GB", bytes / 1e9); }

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

absl::Status Download::Run(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::string pointer, folder_.Pointer(commit_, file));
    if (Exists(pointer)) continue;
    tasks_.push_back(std::make_unique<Task>());
    tasks_.back()->file = file;
  }
  if (tasks_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Drive(State::kReady));
  RETURN_IF_ERROR(CheckRoom());
  RETURN_IF_ERROR(Drive(State::kDone));
  told_ = {};
  Tell();
  return absl::OkStatus();
}

absl::Status Download::Drive(State end) {
  while (true) {
    int active = 0;
    bool checks = false, all = true;
    for (const auto& task : tasks_) {
      if (task->state >= end) continue;
      all = false;
      if (++active > kAtOnce) break;
      RETURN_IF_ERROR(Advance(*task));
      RETURN_IF_ERROR(failure_);
      checks = checks || task->state == State::kLocked;
    }
    if (all) return absl::OkStatus();
    if (calls_.stop()) return absl::CancelledError("the download was cancelled");
    http_.Run(checks ? std::chrono::milliseconds(0) : kTick);
    RETURN_IF_ERROR(failure_);
    Tell();
  }
}

absl::Status Download::Advance(Task& task) {
  if (Clock::now() < task.not_before) return absl::OkStatus();
  switch (task.state) {
    case State::kIdle:
      AskSize(task);
      return absl::OkStatus();
    case State::kReady:
      return TryLock(task);
    case State::kLocked:
      if (task.out->checked() < task.out->bytes()) return task.out->Check();
      if (task.out->bytes() == task.size) return Complete(task);
      RequestPiece(task);
      return absl::OkStatus();
    default:
      return absl::OkStatus();
  }
}

std::string Download::UrlOf(const Task& task) const {
  return absl::StrCat(settings_.endpoint, "/", PathOf(name_), "/resolve/", commit_, "/",
                      Quoted(task.file, "/"));
}

void Download::AskSize(Task& task) {
  task.state = State::kAsked;
  HttpRequest request{.url = UrlOf(task),
                      .head = true,
                      .token = settings_.token,
                      .follows_elsewhere = false,
                      .connect_seconds = settings_.etag_timeout,
                      .idle_seconds = settings_.etag_timeout};
  http_.Start(std::move(request), [this, &task](absl::StatusOr<HttpAnswer> answer) {
    const bool found = answer.ok() && answer->code >= 200 && answer->code < 400;
    failure_.Update(found ? TakeSize(task, *answer) : Retry(task, State::kIdle, answer));
  });
}

absl::Status Download::TakeSize(Task& task, const HttpAnswer& answer) {
  std::string etag = answer.header("x-linked-etag"), size = answer.header("x-linked-size");
  if (etag.empty()) etag = answer.header("etag");
  if (size.empty()) size = answer.header("content-length");
  task.etag = PlainEtag(etag);
  if (task.etag.empty() || !absl::SimpleAtoi(size, &task.size) || task.size < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(settings_.endpoint, " gives neither size nor ETag of '", name_.name, "', ",
                     task.file, ": is it a hub (HF_ENDPOINT)?"));
  }
  ASSIGN_OR_RETURN(task.blob, folder_.Blob(task.etag));
  ASSIGN_OR_RETURN(task.lock, folder_.Lock(task.etag));
  task.state = State::kReady;
  return absl::OkStatus();
}

// Checks that the disk has room for the downloads. Files with the same contents are counted once,
// because they are downloaded once.
absl::Status Download::CheckRoom() const {
  int64_t wanted = 0;
  std::error_code ignored;
  std::vector<std::string> counted;
  for (const auto& task : tasks_) {
    if (Exists(task->blob) || std::count(counted.begin(), counted.end(), task->etag) > 0) continue;
    counted.push_back(task->etag);
    const auto there = fs::file_size(task->blob + ".incomplete", ignored);
    wanted += task->size - (ignored ? 0 : std::min<int64_t>(task->size, there));
  }
  RETURN_IF_ERROR(MakeFolderOf(tasks_[0]->blob));
  struct statvfs disk;
  if (statvfs(fs::path(tasks_[0]->blob).parent_path().c_str(), &disk) != 0) return absl::OkStatus();
  const int64_t room = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  if (room >= wanted || disk.f_blocks == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "'", name_.name, "' takes another ", Gigabytes(wanted), " in ", folder_.path(),
      ", and its disk has ", Gigabytes(room), " left; HF_HUB_CACHE or cache_dir names another"));
}

absl::Status Download::TryLock(Task& task) {
  if (!Exists(task.blob)) {
    ASSIGN_OR_RETURN(task.out, BlobFile::TryOpen(task.blob, task.lock, task.etag, task.size));
    if (task.out == nullptr) {
      if (task.waits_since == Clock::time_point()) task.waits_since = Clock::now();
      if (!task.said_waits && Clock::now() - task.waits_since > kPatience) {
        task.said_waits = true;
        calls_.say(absl::StrCat(name_.name, ", ", task.file,
                                ": another process downloads it: waiting for that"));
      }
      task.not_before = Clock::now() + kTick;
      return absl::OkStatus();
    }
    if (!task.out->is_there()) {
      task.state = State::kLocked;
      return absl::OkStatus();
    }
    task.out.reset();
  }
  RETURN_IF_ERROR(folder_.Link(commit_, task.file, task.etag));
  task.state = State::kDone;
  return absl::OkStatus();
}

void Download::RequestPiece(Task& task) {
  task.state = State::kFetching;
  const int64_t before = task.out->bytes();
  HttpRequest request{.url = UrlOf(task),
                      .token = settings_.token,
                      .first = before,
                      .last = task.size - before > kPiece ? before + kPiece - 1 : -1,
                      .connect_seconds = settings_.etag_timeout,
                      .idle_seconds = settings_.download_timeout};
  request.on_head = [this, &task](const HttpAnswer& answer) { return TakeHead(task, answer); };
  request.on_body = [this, &task](absl::string_view bytes) { return TakeBytes(task, bytes); };
  http_.Start(std::move(request), [this, &task, before](absl::StatusOr<HttpAnswer> answer) {
    failure_.Update(EndPiece(task, before, answer));
  });
}

absl::Status Download::TakeHead(Task& task, const HttpAnswer& answer) {
  if (answer.code != 206) return task.out->bytes() > 0 ? task.out->Clear() : absl::OkStatus();
  const std::string range = answer.header("content-range");
  if (absl::StartsWith(range, absl::StrCat("bytes ", task.out->bytes(), "-")))
    return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(task.file, ": asked for bytes from ", task.out->bytes(),
                                          " on, got '", range, "'"));
}

absl::Status Download::TakeBytes(Task& task, absl::string_view bytes) {
  const int64_t room = task.size - task.out->bytes();
  if (static_cast<int64_t>(bytes.size()) > room) {
    RETURN_IF_ERROR(task.out->Clear());
    return absl::DataLossError(absl::StrCat("more than its ", task.size, " bytes came"));
  }
  task.retries.Progress();
  task.fetched += bytes.size();
  return task.out->Append(bytes);
}

absl::Status Download::EndPiece(Task& task, int64_t before,
                                const absl::StatusOr<HttpAnswer>& answer) {
  if (answer.ok() && answer->code == 416) RETURN_IF_ERROR(task.out->Clear());
  const bool came = answer.ok() && answer->code >= 200 && answer->code < 300;
  if (came && task.out->bytes() == task.size) return Complete(task);
  if (came && task.out->bytes() > before) {
    task.state = State::kLocked;  // for the next piece
    return absl::OkStatus();
  }
  if (came || (answer.ok() && answer->code == 416))
    return Retry(task, State::kLocked, absl::UnavailableError("nothing came"));
  return Retry(task, State::kLocked, answer);
}

absl::Status Download::Complete(Task& task) {
  const absl::Status whole = task.out->Commit();
  if (absl::IsDataLoss(whole) && !task.was_wrong) {
    task.was_wrong = true;
    calls_.say(absl::StrCat(name_.name, ", ", task.file, ": ", whole.message(),
                            ": it is downloaded again"));
    task.state = State::kLocked;
    return absl::OkStatus();
  }
  if (!whole.ok()) {
    return base::WithContext(whole, absl::StrCat("'", name_.name, "', ", task.file));
  }
  RETURN_IF_ERROR(folder_.Link(commit_, task.file, task.etag));
  task.state = State::kDone;
  task.out.reset();  // also unlocks it
  return absl::OkStatus();
}

absl::Status Download::Retry(Task& task, State state, const absl::StatusOr<HttpAnswer>& answer) {
  const auto pause = task.retries.After(answer);
  const std::string why = answer.ok() ? absl::StrCat("the hub answers ", answer->code)
                                      : std::string(answer.status().message());
  if (pause.has_value()) {
    const int64_t there = task.out == nullptr ? 0 : task.out->bytes();
    calls_.say(absl::StrCat(name_.name, ", ", task.file, ": ", why, ": again in ",
                            absl::StrFormat("%.1f s", pause->count() / 1000.0),
                            there > 0 ? absl::StrCat(", behind ", Gigabytes(there)) : ""));
    task.not_before = Clock::now() + *pause;
    task.state = state;
    return absl::OkStatus();
  }
  if (answer.ok()) return Refusal(settings_, name_, task.file, *answer);
  const absl::Status& failed = answer.status();
  const bool network =
      absl::IsUnavailable(failed) || absl::IsDeadlineExceeded(failed) || absl::IsNotFound(failed);
  if (!network) return base::WithContext(failed, absl::StrCat("'", name_.name, "', ", task.file));
  return absl::UnavailableError(
      absl::StrCat(NoAnswer(settings_, name_, failed).message(), ", ", task.file,
                   ": given up; the partial file is kept, and the next start continues it"));
}

void Download::Tell() {
  if (!calls_.progress || Clock::now() - told_ < kTick) return;
  told_ = Clock::now();
  DownloadProgress progress;
  for (const auto& task : tasks_) {
    if (task->size < 0) return;  // not all sizes are known yet
    progress.total_bytes += task->size;
    progress.fetched += task->fetched;
    if (task->state == State::kDone) progress.bytes += task->size;
    if (task->out != nullptr) progress.bytes += task->out->bytes();
  }
  calls_.progress(progress);
}

}  // namespace moonring::lua
