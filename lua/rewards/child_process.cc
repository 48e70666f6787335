#include "lua/rewards/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status/status_macros.h"

extern char** environ;

namespace moonring::lua {
namespace {

constexpr size_t kLongest = size_t{64} << 20;  // bytes of an answer
constexpr size_t kLongestError = 4096, kMostErrors = 1000;
constexpr size_t kShownErrors = 3;
constexpr std::chrono::milliseconds kTick(100), kGrace(250), kGlance(5);

// Creates a pipe whose two ends are closed in child processes (close-on-exec).
absl::Status Pipe(int (&ends)[2]) {
  if (pipe2(ends, O_CLOEXEC) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("no pipe: ", std::strerror(errno)));
}

void Close(int& descriptor) {
  if (descriptor >= 0) close(std::exchange(descriptor, -1));
}

// write() that does not raise SIGPIPE: writing to a process that has ended only returns an error.
ssize_t WriteQuietly(int to, const char* bytes, size_t size) {
  sigset_t broken, before, pending;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  const ssize_t written = write(to, bytes, size);
  const int error = errno;
  if (written < 0 && error == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec now = {};
    while (sigtimedwait(&broken, nullptr, &now) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

// Starts the program with these descriptors as its stdin, stdout and stderr. Returns 0 or an errno
// value.
int Spawn(const std::vector<std::string>& command, int in, int out, int err, pid_t& pid) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  // The program must not inherit a rank's sockets: they would stay open after the rank has died.
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&how, &all);
  posix_spawnattr_setsigmask(&how, &none);
  posix_spawnattr_setpgroup(&how, 0);
  posix_spawnattr_setflags(&how,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(&pid, words[0], &files, &how, words.data(), environ);
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    std::vector<std::string> command) {
  if (command.empty() || command[0].empty())
    return absl::InvalidArgumentError("expected a program and its arguments");
  std::unique_ptr<ChildProcess> child(new ChildProcess());
  child->command_ = std::move(command);
  int in[2], out[2], err[2];
  RETURN_IF_ERROR(Pipe(in));
  child->in_ = in[1];
  int theirs = in[0];
  absl::Status piped = Pipe(out);
  if (piped.ok()) {
    child->out_ = out[0];
    piped = Pipe(err);
    if (!piped.ok()) close(out[1]);
  }
  if (!piped.ok()) {
    Close(theirs);
    return piped;
  }
  child->err_ = err[0];
  const int error = Spawn(child->command_, theirs, out[1], err[1], child->pid_);
  Close(theirs);
  close(out[1]);
  close(err[1]);
  if (error != 0) {
    child->pid_ = -1;
    const std::string words =
        absl::StrCat("cannot start '", child->command_[0], "': ", std::strerror(error));
    if (error == ENOENT) return absl::NotFoundError(words);
    if (error == EACCES) return absl::PermissionDeniedError(words);
    return absl::UnavailableError(words);
  }
  for (const int ours : {child->in_, child->out_, child->err_})
    fcntl(ours, F_SETFL, fcntl(ours, F_GETFL) | O_NONBLOCK);
  return child;
}

ChildProcess::~ChildProcess() { End(); }

void ChildProcess::End() {
  Close(in_);
  if (pid_ > 0) {
    const auto until = Clock::now() + kGrace;
    pid_t ended = waitpid(pid_, nullptr, WNOHANG);
    while (ended == 0 && Clock::now() < until) {
      std::this_thread::sleep_for(kGlance);
      ended = waitpid(pid_, nullptr, WNOHANG);
    }
    kill(-pid_, SIGKILL);  // also its child processes
    if (ended == 0) {
      while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    pid_ = -1;
  }
  if (err_ >= 0) ReadErrors();
  Close(out_);
  Close(err_);
}

// Waits until input or output is possible, or for one tick; returns false after the deadline.
bool ChildProcess::Wait(bool writes, Clock::time_point deadline) {
  const auto now = Clock::now();
  if (now >= deadline) return false;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  pollfd files[] = {
      {out_, POLLIN, 0}, {err_, POLLIN, 0}, {writes ? in_ : -1, POLLOUT, 0}};  // -1: none
  poll(files, 3, static_cast<int>(std::min<std::chrono::milliseconds>(left, kTick).count()));
  return true;
}

absl::Status ChildProcess::Write(absl::string_view& left) {
  while (!left.empty()) {
    const ssize_t written = WriteQuietly(in_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return absl::OkStatus();
    if (written < 0) return Ended();
    left.remove_prefix(written);
  }
  return absl::OkStatus();
}

void ChildProcess::ReadErrors() {
  char bytes[4096];
  const auto keep = [&] {
    errors_.push_back(std::exchange(begun_error_, ""));
    if (errors_.size() > kMostErrors) errors_.pop_front();
  };
  while (err_ >= 0) {
    const ssize_t came = read(err_, bytes, sizeof bytes);
    if (came < 0 && errno == EINTR) continue;
    if (came < 0) return;
    if (came == 0) return Close(err_);
    for (ssize_t i = 0; i < came; ++i) {
      if (bytes[i] == '\n' || begun_error_.size() >= kLongestError) keep();
      if (bytes[i] != '\n') begun_error_ += bytes[i];
    }
  }
}

// Reads the output that is available. Returns whether a complete line was read; the line is then in
// `answer`.
absl::StatusOr<bool> ChildProcess::ReadAnswer(std::string& answer) {
  static thread_local char bytes[1 << 16];
  while (true) {
    const ssize_t came = read(out_, bytes, sizeof bytes);
    if (came < 0 && errno == EINTR) continue;
    if (came < 0 && errno == EAGAIN) return false;
    if (came <= 0) return Ended();
    const void* const end = std::memchr(bytes, '\n', came);
    const ssize_t size = end == nullptr ? came : static_cast<const char*>(end) - bytes;
    if (begun_.size() + size > kLongest)
      return absl::ResourceExhaustedError("its answer is longer than 64 MiB");
    begun_.append(bytes, size);
    if (end == nullptr) continue;
    if (size + 1 != came) {
      return absl::InvalidArgumentError(absl::StrCat(
          "it answered more than one line: after '", begun_.substr(0, 80), "' came '",
          absl::string_view(bytes + size + 1, std::min<ssize_t>(came - size - 1, 80)), "'"));
    }
    answer = std::exchange(begun_, "");
    return true;
  }
}

// Returns the error that describes how the program ended; called when its stdin or stdout is
// closed.
absl::Status ChildProcess::Ended() {
  int status = 0;
  pid_t ended = 0;
  for (const auto until = Clock::now() + kGrace; pid_ > 0 && ended == 0;) {
    ended = waitpid(pid_, &status, WNOHANG);
    if (ended != 0 || Clock::now() > until) break;
    std::this_thread::sleep_for(kGlance);
  }
  std::string how = "it closed its input or output";
  if (ended > 0) {
    kill(-pid_, SIGKILL);
    pid_ = -1;
    how = WIFSIGNALED(status) ? absl::StrCat("it was ended by signal ", WTERMSIG(status))
                              : absl::StrCat("it ended with exit code ", WEXITSTATUS(status));
  }
  if (err_ >= 0) ReadErrors();
  std::deque<std::string> last = errors_;
  if (!begun_error_.empty()) last.push_back(begun_error_);
  while (last.size() > kShownErrors) last.pop_front();
  if (last.empty()) return absl::UnavailableError(how);
  return absl::UnavailableError(absl::StrCat(how, ", and said: ", absl::StrJoin(last, " | ")));
}

absl::StatusOr<std::string> ChildProcess::Ask(absl::string_view line, Clock::time_point deadline,
                                              absl::FunctionRef<bool()> stop) {
  const std::string whole = absl::StrCat(line, "\n");
  absl::string_view left = whole;
  std::string answer;
  ASSIGN_OR_RETURN(const bool is_early, ReadAnswer(answer));
  if (is_early || !begun_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("it wrote an unexpected line to its stdout: '",
                                                   (is_early ? answer : begun_).substr(0, 80),
                                                   "'"));
  }
  while (true) {
    if (!left.empty()) RETURN_IF_ERROR(Write(left));
    if (err_ >= 0) ReadErrors();
    ASSIGN_OR_RETURN(const bool is_whole, ReadAnswer(answer));
    if (is_whole) {
      if (left.empty()) return answer;
      return absl::InvalidArgumentError("it answered before it had read all of the question");
    }
    if (stop()) return absl::CancelledError("the run was cancelled");
    if (!Wait(!left.empty(), deadline)) return absl::DeadlineExceededError("no answer in time");
  }
}

absl::Status ChildProcess::Tell(absl::string_view& left, std::chrono::milliseconds most) {
  if (!left.empty()) {
    RETURN_IF_ERROR(Write(left));
    if (!left.empty()) Wait(/*writes=*/true, Clock::now() + most);
  }
  if (err_ >= 0) ReadErrors();
  if (out_ >= 0 && !DropAnswers()) Close(out_);
  return absl::OkStatus();
}

bool ChildProcess::DropAnswers() {
  char bytes[4096];
  while (true) {
    const ssize_t came = read(out_, bytes, sizeof bytes);
    if (came > 0 || (came < 0 && errno == EINTR)) continue;
    return came < 0 && errno == EAGAIN;
  }
}

absl::StatusOr<std::vector<std::string>> ChildProcess::Exchange(absl::string_view text) {
  unsent_.append(text.data(), text.size());
  absl::string_view left = unsent_;
  const absl::Status written = Write(left);
  unsent_.erase(0, unsent_.size() - left.size());
  if (err_ >= 0) ReadErrors();
  static thread_local char bytes[1 << 16];
  ssize_t came = 0;
  do {
    came = read(out_, bytes, sizeof bytes);
    if (came > 0) begun_.append(bytes, came);
  } while (came > 0 || (came < 0 && errno == EINTR));
  const bool is_closed = came == 0 || (came < 0 && errno != EAGAIN);
  std::vector<std::string> lines;
  if (const size_t end = begun_.rfind('\n'); end != std::string::npos) {
    lines = absl::StrSplit(absl::string_view(begun_).substr(0, end), '\n');
    begun_.erase(0, end + 1);
  }
  if (begun_.size() > kLongest)
    return absl::ResourceExhaustedError("it wrote a line of more than 64 MiB");
  if (!lines.empty()) return lines;
  if (is_closed) return Ended();
  RETURN_IF_ERROR(written);
  return lines;
}

bool ChildProcess::Finish(Clock::time_point deadline) {
  Close(in_);
  while (pid_ > 0) {
    const pid_t ended = waitpid(pid_, nullptr, WNOHANG);
    if (ended != 0) {
      kill(-pid_, SIGKILL);  // also its child processes
      pid_ = -1;
      break;
    }
    if (err_ >= 0) ReadErrors();
    if (out_ >= 0 && !DropAnswers()) Close(out_);
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kGlance);
  }
  return true;
}

std::vector<std::string> ChildProcess::TakeLines() {
  if (err_ >= 0) ReadErrors();
  const std::deque<std::string> lines = std::exchange(errors_, {});
  return {lines.begin(), lines.end()};
}

}  // namespace moonring::lua
