#ifndef MOONRING_LUA_REWARDS_CHILD_PROCESS_H_
#define MOONRING_LUA_REWARDS_CHILD_PROCESS_H_

// A program that answers questions (a line on its stdin, a line on its stdout) or is told lines,
// for as long as this process lives. What it writes on its stderr is kept, line by line.
//
// It is a process group of its own, so that Ctrl-C is the run's alone, with every signal as it is
// by default and no other file open. At the end its stdin is closed; after a quarter of a second it
// is killed, and what it has started with it. (A host that is killed itself closes its stdin too.)
//
// Fails with NOT_FOUND or PERMISSION_DENIED where it cannot be started; UNAVAILABLE where it has
// ended, with how and the last that it wrote on stderr; DEADLINE_EXCEEDED; CANCELLED;
// RESOURCE_EXHAUSTED for an answer beyond 64 MiB. After any of these it is no longer asked: where
// its answer belongs is not known.

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

  // `command`: the program, looked for on the path, and its arguments.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(std::vector<std::string> command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The line that answers `line`, without its end. `stop` is asked some ten times a second.
  absl::StatusOr<std::string> Ask(absl::string_view line, Clock::time_point deadline,
                                  absl::FunctionRef<bool()> stop);

  // Writes of `left` what it takes at once, waiting at most so long for it to take more, and drops
  // what it wrote on stdout: of one that answers nothing. After a failure it is no longer told.
  absl::Status Tell(absl::string_view& left, std::chrono::milliseconds most);

  // Closes its stdin and waits for its end: whether that came before the deadline.
  bool Finish(Clock::time_point deadline);

  // What it wrote on stderr since the last time; of very much the last.
  std::vector<std::string> TakeLines();

  const std::vector<std::string>& command() const { return command_; }
  pid_t pid() const { return pid_; }

 private:
  ChildProcess() = default;
  bool Wait(bool writes, Clock::time_point deadline);
  absl::Status Write(absl::string_view& left);
  void ReadErrors();
  bool DropAnswers();  // false: there is an end to them
  absl::StatusOr<bool> ReadAnswer(std::string& answer);
  absl::Status Ended();
  void End();

  std::vector<std::string> command_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;  // ours of its stdin, stdout and stderr
  std::string begun_, begun_error_;    // lines that have no end yet
  std::deque<std::string> errors_;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REWARDS_CHILD_PROCESS_H_
