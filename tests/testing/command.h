#ifndef MOONRING_TESTS_TESTING_COMMAND_H_
#define MOONRING_TESTS_TESTING_COMMAND_H_

// Runs the host program, //:moonring, as users do: as a process with arguments, an environment and
// a stdin.
//
// A test that uses this header lists "//:moonring" in its `data`. The process leads its own process
// group. The only time limit is the test's own (Bazel's TEST_TIMEOUT): shortly before it the
// process group is killed, so a hang is reported as a failure with the program's output, and no
// process remains. No other check depends on the machine's speed.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace moonring::testing {

struct CommandOptions {
  std::vector<std::string> arguments;
  std::map<std::string, std::string>
      environment;           // besides this process's own, without torchrun's and Slurm's variables
  std::string folder;        // to run in; "": this one
  std::string input;         // stdin; at most a pipe's capacity
  int64_t largest_file = 0;  // bytes, beyond which a write fails as on a full disk; 0: none
  bool closed = false;       // it starts with descriptors 0, 1 and 2 closed
  bool unread = false;       // nobody reads what it says: the pipes' other ends are closed
};

struct CommandResult {
  int exit_code = -1;  // as a shell says it: 128+n where signal n ended it
  bool timed_out = false;
  std::string out, err;

  std::string Describe() const;  // for a failure's message
};

class Command {
 public:
  explicit Command(CommandOptions options);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  std::vector<pid_t> Children() const;  // in the order of their start
  bool WaitForOutput(
      const std::string& text);  // on stdout or stderr; false where it ended without, or hangs
  std::string Output();          // stdout so far
  void Signal(int signal) const;
  // Waits until the process and all others of its group have ended; returns the ids of those that
  // have not ended when the test's time is over. Call it before Wait(), which kills them.
  std::vector<pid_t> LeftBehind() const;
  CommandResult Wait();  // once

 private:
  void Drain(int fd, std::string* text);

  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::mutex mutex_;  // out_ and err_
  std::string out_, err_;
  std::thread out_reader_, err_reader_;
};

CommandResult RunMoonring(CommandOptions options);
CommandResult RunMoonring(std::vector<std::string> arguments);

// Returns whether MOONRING_TEST_HOST names another binary with the same commands: the one built for
// the pretend device (tests/testing/pretend_device/rerun.bzl).
bool OnPretendDevice();

bool Alive(pid_t pid);  // a zombie is not

// Waits until `condition` is true; returns false if the test's time limit comes first.
bool Await(const std::function<bool()>& condition);

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_COMMAND_H_
