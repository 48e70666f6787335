#ifndef MOONRING_LUA_REWARDS_CHILD_PROCESS_H_
#define MOONRING_LUA_REWARDS_CHILD_PROCESS_H_

// A child process that runs while this process does. It answers requests (a line on its stdin, a
// line on its stdout), or only receives lines, or reads and writes lines at any time. The lines
// that it writes to stderr are kept.
//
// The program runs in its own process group, so that Ctrl-C reaches only the run, with default
// signal handling and no other open files. When the object is destroyed, the program's stdin is
// closed; a quarter of a second later the program is killed with the processes that it started. (If
// this process is killed, the program's stdin is closed too.)
//
// Errors: NOT_FOUND or PERMISSION_DENIED if the program cannot be started; UNAVAILABLE if it has
// ended, with its exit status and its last lines on stderr; DEADLINE_EXCEEDED; CANCELLED;
// RESOURCE_EXHAUSTED for an answer longer than 64 MiB. After any of these errors no more requests
// are sent, because answers can no longer be matched to requests.

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

  // Starts the program. `command`: the program, searched on the PATH, and its arguments.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(std::vector<std::string> command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Sends a line and returns the line that the program answers, without its line end. `stop` is
  // called about ten times a second; if it returns true, the call ends with CANCELLED.
  absl::StatusOr<std::string> Ask(absl::string_view line, Clock::time_point deadline,
                                  absl::FunctionRef<bool()> stop);

  // For a program that does not answer: writes as much of `left` as the program accepts, waiting at
  // most `most`, and removes it from `left`. The program's output on stdout is discarded. After an
  // error, Tell must not be called again.
  absl::Status Tell(absl::string_view& left, std::chrono::milliseconds most);

  // For a program that reads and writes lines at any time: queues `text`, writes as much of the
  // queue as the program accepts, and returns the complete lines that it has written. Does not
  // wait. Lines that it wrote before it ended are returned before the error.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view text);

  // Closes the program's stdin and waits for the program's end; returns whether it ended before the
  // deadline.
  bool Finish(Clock::time_point deadline);

  // Returns the lines that the program wrote to stderr since the last call; if there are too many,
  // only the last ones.
  std::vector<std::string> TakeLines();

  const std::vector<std::string>& command() const { return command_; }
  pid_t pid() const { return pid_; }

 private:
  ChildProcess() = default;
  bool Wait(bool writes, Clock::time_point deadline);
  absl::Status Write(absl::string_view& left);
  void ReadErrors();
  bool DropAnswers();  // discards its output; false: its stdout is closed
  absl::StatusOr<bool> ReadAnswer(std::string& answer);
  absl::Status Ended();
  void End();

  std::vector<std::string> command_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;  // our ends of its stdin, stdout and stderr
  std::string begun_, begun_error_;    // the incomplete last lines of stdout and stderr
  std::string unsent_;                 // the queue of Exchange
  std::deque<std::string> errors_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REWARDS_CHILD_PROCESS_H_
