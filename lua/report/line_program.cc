#include "lua/report/line_program.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"

namespace moonring::lua {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kGlance(100);
constexpr size_t kMostNotes = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<LineProgram>> LineProgram::Start(LineProgramOptions options) {
  std::unique_ptr<LineProgram> program(new LineProgram(std::move(options)));
  ASSIGN_OR_RETURN(program->child_, ChildProcess::Start(program->options_.command));
  try {
    program->thread_ = std::thread([self = program.get()] {
      const absl::Status status = base::TryTorch([self] { self->Work(); });
      const std::lock_guard<std::mutex> lock(self->mutex_);
      if (!status.ok()) self->ended_ = true;  // out of memory: no further lines are accepted
    });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread for it: ", error.what()));
  }
  return program;
}

LineProgram::~LineProgram() { Stop(options_.grace); }

void LineProgram::Finish(std::chrono::milliseconds patience) { Stop(patience); }

void LineProgram::Stop(std::chrono::milliseconds patience) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    until_ = Clock::now() + patience;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Adds a message for TakeNotes. Requires mutex_.
void LineProgram::Note(std::string words) {
  if (notes_.size() < kMostNotes) notes_.push_back(std::move(words));
}

void LineProgram::Send(std::string line) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended_ || closing_) return;
  if (waiting_.size() >= options_.most_lines ||
      waiting_bytes_ + line.size() > options_.most_bytes) {
    if (dropped_++ == 0) Note("it reads too slowly: lines that do not fit its queue are dropped");
    return;
  }
  waiting_bytes_ += line.size() + 1;
  waiting_.push_back(std::move(line) + "\n");
  changed_.notify_all();
}

std::vector<std::string> LineProgram::TakeNotes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closing_ && dropped_ > 0)
    Note(absl::StrCat("it read too slowly: ", std::exchange(dropped_, 0), " lines were dropped"));
  return std::exchange(notes_, {});
}

void LineProgram::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::string line;  // the line being written
  absl::string_view left;
  absl::Status status;
  while (status.ok()) {
    if (left.empty() && !waiting_.empty()) {
      line = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= line.size();
      left = line;
    }
    if (closing_ && (left.empty() || Clock::now() >= until_)) break;
    if (left.empty()) changed_.wait_for(lock, kGlance);
    lock.unlock();
    status = child_->Tell(left, kGlance);
    std::vector<std::string> said = child_->TakeLines();
    lock.lock();
    for (std::string& each : said) Note(std::move(each));
  }
  ended_ = true;
  if (!status.ok()) {
    Note(absl::StrCat(status.message(), "; it receives no further steps"));
  } else if (!left.empty()) {
    Note(absl::StrCat("it has not read ", waiting_.size() + 1, " lines"));
  }
  const auto until = until_;
  lock.unlock();
  const bool ended = !status.ok() || child_->Finish(until);
  std::vector<std::string> said = child_->TakeLines();
  child_.reset();
  lock.lock();
  for (std::string& each : said) Note(std::move(each));
  if (!ended) Note("it did not end in time, and was killed");
}

}  // namespace moonring::lua
