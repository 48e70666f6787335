#include "tests/testing/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace moonring::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPause = std::chrono::milliseconds(10);

// Returns true shortly before Bazel would kill the test, which would not report the cause: a
// process that still runs counts as hanging.
bool TimeIsOver() {
  static const Clock::time_point end = [] {
    const char* limit = std::getenv("TEST_TIMEOUT");  // seconds
    const std::chrono::seconds seconds(limit != nullptr ? std::max(std::atoi(limit), 60) : 3600);
    return Clock::now() + seconds - std::chrono::seconds(30);
  }();
  return Clock::now() > end;
}

// Returns the path of the host program. Tests run in the main repository's runfiles folder.
const std::string& Host() {
  static const std::string path = [] {
    const char* other = std::getenv("MOONRING_TEST_HOST");
    return std::filesystem::absolute(other != nullptr ? other : "moonring").string();
  }();
  return path;
}

[[noreturn]] void Become(const CommandOptions& options, const int (&input)[2], const int (&out)[2],
                         const int (&err)[2]) {
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_DFL);
  dup2(input[0], STDIN_FILENO);
  dup2(out[1], STDOUT_FILENO);
  dup2(err[1], STDERR_FILENO);
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
        "MOONRING_STORE", "MOONRING_TOKEN", "SLURM_PROCID", "BUILD_WORKING_DIRECTORY"}) {
    unsetenv(name);
  }
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (options.closed) close(standard);
  }
  if (options.largest_file > 0) {
    const auto bytes = static_cast<rlim_t>(options.largest_file);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv = {const_cast<char*>(Host().c_str())};
  for (const std::string& word : options.arguments) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  if (options.folder.empty() || chdir(options.folder.c_str()) == 0) execv(argv[0], argv.data());
  _exit(127);
}

// What /proc reports about a process; its state is "" if the process is gone.
struct Process {
  pid_t pid = 0, parent = 0, group = 0;
  std::string state;  // a letter
  bool alive() const { return !state.empty() && state != "Z" && state != "X"; }
};

Process ProcessOf(pid_t pid) {
  Process process{.pid = pid};
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return process;
  std::istringstream rest(text.substr(name_end + 1));
  rest >> process.state >> process.parent >> process.group;
  return process;
}

std::vector<Process> Processes() {
  std::vector<Process> processes;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0) processes.push_back(ProcessOf(pid));
  }
  return processes;
}

}  // namespace

std::string CommandResult::Describe() const {
  return (timed_out ? std::string("timed out") : "exit code " + std::to_string(exit_code)) +
         "\n--- stdout\n" + out + "--- stderr\n" + err + "---\n";
}

Command::Command(CommandOptions options) {
  TimeIsOver();  // counts from the first command
  int input[2], out[2], err[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
    throw std::runtime_error(std::strerror(errno));
  Host();
  pid_ = fork();
  if (pid_ == 0) Become(options, input, out, err);
  setpgid(pid_, pid_);
  close(input[0]);
  close(out[1]);
  close(err[1]);
  fcntl(input[1], F_SETFL, O_NONBLOCK);
  const auto before = signal(SIGPIPE, SIG_IGN);
  (void)!write(input[1], options.input.data(), options.input.size());
  signal(SIGPIPE, before);
  close(input[1]);
  if (options.unread) {
    close(out[0]);
    close(err[0]);
    return;
  }
  out_reader_ = std::thread([this, fd = out[0]] { Drain(fd, &out_); });
  err_reader_ = std::thread([this, fd = err[0]] { Drain(fd, &err_); });
}

Command::~Command() {
  if (!ended_) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_reader_.joinable()) out_reader_.join();
  if (err_reader_.joinable()) err_reader_.join();
}

void Command::Drain(int fd, std::string* text) {
  char buffer[4096];
  for (ssize_t size;
       (size = read(fd, buffer, sizeof(buffer))) > 0 || (size < 0 && errno == EINTR);) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (size > 0) text->append(buffer, size);
  }
  close(fd);
}

std::vector<pid_t> Command::Children() const {
  std::vector<pid_t> children;
  for (const Process& process : Processes()) {
    if (!process.state.empty() && process.parent == pid_) children.push_back(process.pid);
  }
  std::sort(children.begin(), children.end());
  return children;
}

bool Command::WaitForOutput(const std::string& text) {
  for (; !TimeIsOver(); std::this_thread::sleep_for(kPause)) {
    const bool alive = Alive(pid_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (out_.find(text) != std::string::npos || err_.find(text) != std::string::npos) return true;
    }
    if (!alive) return false;
  }
  return false;
}

std::string Command::Output() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return out_;
}

void Command::Signal(int signal) const { kill(pid_, signal); }

std::vector<pid_t> Command::LeftBehind() const {
  std::vector<pid_t> left;
  Await([&] {
    left.clear();
    for (const Process& process : Processes()) {
      if (process.alive() && process.group == pid_) left.push_back(process.pid);
    }
    return left.empty();
  });
  return left;
}

CommandResult Command::Wait() {
  CommandResult result;
  while (waitpid(pid_, &status_, WNOHANG) == 0) {
    if (TimeIsOver()) {
      result.timed_out = true;
      kill(-pid_, SIGKILL);
      waitpid(pid_, &status_, 0);
      break;
    }
    std::this_thread::sleep_for(kPause);
  }
  ended_ = true;
  kill(-pid_, SIGKILL);  // a rank that was left behind would hold the pipes
  if (out_reader_.joinable()) out_reader_.join();
  if (err_reader_.joinable()) err_reader_.join();
  result.exit_code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  result.out = out_;
  result.err = err_;
  return result;
}

CommandResult RunMoonring(CommandOptions options) { return Command(std::move(options)).Wait(); }

CommandResult RunMoonring(std::vector<std::string> arguments) {
  return RunMoonring(CommandOptions{.arguments = std::move(arguments)});
}

bool Await(const std::function<bool()>& condition) {
  while (!condition()) {
    if (TimeIsOver()) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

bool OnPretendDevice() { return std::getenv("MOONRING_TEST_HOST") != nullptr; }

bool Alive(pid_t pid) { return ProcessOf(pid).alive(); }

}  // namespace moonring::testing
