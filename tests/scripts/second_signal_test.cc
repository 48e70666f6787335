// Ctrl-C in the terminal of a run that was started without -n: the first one asks the run to save
// and exit at the end of the step; the second one ends it at once.

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/scripts/resumed_runs.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Runs the host as the foreground process of its own terminal. Its output goes through a pipe.
class TerminalRun {
 public:
  explicit TerminalRun(const CommandOptions& options) {
    const std::string host = std::filesystem::absolute("moonring");
    std::vector<char*> words = {const_cast<char*>(host.c_str())};
    for (const std::string& word : options.arguments)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    int screen = -1, ends[2] = {-1, -1};
    EXPECT_EQ(openpty(&keys_, &screen, nullptr, nullptr, nullptr), 0);
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    fcntl(keys_, F_SETFD, FD_CLOEXEC);
    pid_ = fork();
    if (pid_ == 0) {
      setsid();
      ioctl(screen, TIOCSCTTY, 0);
      signal(SIGINT, SIG_DFL);
      dup2(screen, STDIN_FILENO);
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
      for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
      if (chdir(options.folder.c_str()) == 0) execv(words[0], words.data());
      _exit(127);
    }
    close(screen);
    close(ends[1]);
    from_ = ends[0];
    fcntl(from_, F_SETFL, O_NONBLOCK);
  }
  ~TerminalRun() {
    if (!ended_) Kill();
    close(keys_);
    close(from_);
  }
  TerminalRun(const TerminalRun&) = delete;
  TerminalRun& operator=(const TerminalRun&) = delete;

  const std::string& said() const { return said_; }
  void PressCtrlC() const { EXPECT_EQ(write(keys_, "\x03", 1), 1); }

  // Returns false if the process ended without printing the text, or hangs.
  bool WaitForOutput(const std::string& text) {
    const auto is_said = [&] { return said_.find(text) != std::string::npos; };
    Await([&] { return !Read() || is_said(); });
    return is_said();
  }

  // Returns the exit code as a shell does, or -1 if the process hangs.
  int Wait() {
    int status = 0;
    // Reads the output in the meantime, because a full pipe would block the process.
    const bool ended = Await([&] {
      Read();
      return waitpid(pid_, &status, WNOHANG) == pid_;
    });
    ended_ = true;
    if (!ended) {
      Kill();
      return -1;
    }
    Read();
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  // Reads the available output; returns false at its end.
  bool Read() {
    char buffer[4096];
    ssize_t size;
    while ((size = read(from_, buffer, sizeof(buffer))) > 0) said_.append(buffer, size);
    return size < 0 && (errno == EAGAIN || errno == EINTR);
  }

  void Kill() const {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid_ = -1;
  int keys_ = -1, from_ = -1;
  bool ended_ = false;
  std::string said_;
};

// Each rank prints a line before step 3 and then waits forever, so the step does not end.
constexpr char kWithoutEnd[] = R"(
  local moonring = require "moonring"
  local ffi = require "ffi"
  ffi.cdef "int pause(void);"
  local step = require "moonring.run.step"
  local make = step.make
  function step.make(engine, batch, k, ...)
    if k < 3 then return make(engine, batch, k, ...) end
    io.stderr:write(("rank %s waits\n"):format(os.getenv "RANK" or "0"))
    while true do ffi.C.pause() end
  end
  dofile(moonring.system.script_path "train")
)";

class SecondSignalTest : public ResumedRuns {};

// The run is one process, or ranks that `train` starts itself.
TEST_F(SecondSignalTest, TheSecondCtrlCEndsTheRunAtOnce) {
  Write("without_end.lua", kWithoutEnd);
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const std::string out = "out" + std::to_string(ranks);
    Words command =
        CommandOf(out, {"max_steps=6", "sequence_parallel_size=" + std::to_string(ranks)});
    command.front() = "without_end.lua";
    TerminalRun run(Options(command));
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_TRUE(run.WaitForOutput("rank " + std::to_string(rank) + " waits")) << run.said();
    run.PressCtrlC();
    ASSERT_TRUE(run.WaitForOutput("once more ends it now")) << run.said();
    run.PressCtrlC();
    EXPECT_EQ(run.Wait(), 128 + SIGINT) << run.said();
    EXPECT_THAT(run.said(), Not(HasSubstr("SIGINT: saved after step")));
    EXPECT_FALSE(std::filesystem::exists(Path(out + "/checkpoint-3")));
  }
}

}  // namespace
}  // namespace moonring::testing
