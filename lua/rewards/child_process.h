#ifndef MOONRING_LUA_REWARDS_CHILD_PROCESS_H_
#define MOONRING_LUA_REWARDS_CHILD_PROCESS_H_

// A program that answers requests (a line on its stdin, a line on its stdout) or only receives
// lines, during the lifetime of this process. The lines that it writes to stderr are kept.
//
// It runs in its own process group, so that Ctrl-C reaches only the run, with default signal
// handling and no other open files. At the end its stdin is closed; after a quarter of a second it
// is killed with the processes that it started. (If this process is killed, its stdin is closed
// too.)
//
// Errors: NOT_FOUND or PERMISSION_DENIED if it cannot be started; UNAVAILABLE if it has ended, with
// its exit status and its last lines on stderr; DEADLINE_EXCEEDED; CANCELLED; RESOURCE_EXHAUSTED
// for an answer longer than 64 MiB. After any of these no more requests are sent, because answers
// can no longer be matched to requests.

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace moonring::lua {

class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // `command`: the program, searched on the PATH, and its arguments.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(std::vector<std::string> command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Sends a line and returns the line that answers it, without its end. `stop` is called about ten
  // times a second and cancels by returning true.
  absl::StatusOr<std::string> Ask(absl::string_view line, Clock::time_point deadline,
                                  absl::FunctionRef<bool()> stop);

  // For a program that does not answer: writes as much of `left` as it accepts, waiting at most
  // `most`, and removes it from `left`. Output on its stdout is discarded. After a failure it must
  // not be called any more.
  absl::Status Tell(absl::string_view& left, std::chrono::milliseconds most);

  // Closes its stdin and waits for its end; returns whether it ended before the deadline.
  bool Finish(Clock::time_point deadline);

  // Returns lines on stderr since the last call; if there are too many, the last ones.
  std::vector<std::string> TakeLines();

  const std::vector<std::string>& command() const { return command_; }
  pid_t pid() const { return pid_; }

 private:
  ChildProcess() = default;
  bool Wait(bool writes, Clock::time_point deadline);
  absl::Status Write(absl::string_view& left);
  void ReadErrors();
  bool DropAnswers();  // false: its stdout is closed
  absl::StatusOr<bool> ReadAnswer(std::string& answer);
  absl::Status Ended();
  void End();

  std::vector<std::string> command_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;  // our ends of its stdin, stdout and stderr
  std::string begun_, begun_error_;    // incomplete lines
  std::deque<std::string> errors_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REWARDS_CHILD_PROCESS_H_
