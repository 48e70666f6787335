#include "lua/host/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/status_macros.h"
#include "base/text/visible_text.h"
#include "lua/host/arrivals.h"
#include "lua/host/signal_count.h"
#include "lua/host/unconfined_exec.h"

namespace moonring::lua {
namespace {

constexpr auto kGrace =
    std::chrono::seconds(3);  // for the others' messages, after the first failure
constexpr auto kPatience = std::chrono::seconds(5);  // from SIGTERM to SIGKILL
// Environment variable with the pipe from a rank to the launcher. The pipe carries an offer of
// restarts, which ends with a zero byte, and the rank's last error: the number of its status code,
// a line end, and the message.
constexpr char kErrorPipe[] = "MOONRING_ERROR_PIPE";
// Environment variable by which BecomeLauncher passes the number of ranks to the launcher.
constexpr char kRanksToLaunch[] = "MOONRING_RANKS";

// Ends the launcher because a resource for a rank is not available (errno). The exit code is 2 if a
// limit on files or processes is the cause: this error comes before the first step, and would
// recur.
[[noreturn]] void EndWithout(int rank, size_t ranks) {
  const int error = errno;
  std::string limit;
  rlimit files = {};
  if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0)
    limit = absl::StrCat("; a process may have ", files.rlim_cur, " open files (ulimit -n)");
  if (error == EAGAIN)
    limit = "; a limit on processes and threads is reached (ulimit -u, or a container's)";
  std::fprintf(stderr, "moonring: rank %d of %zu cannot be started: %s%s\n", rank, ranks,
               std::strerror(error), limit.c_str());
  std::exit(limit.empty() ? 1 : 2);
}

struct Rank {
  pid_t pid = -1;
  int error_pipe = -1;   // reads the rank's last message
  int stderr_pipe = -1;  // -1 for rank 0
  std::string message, line;
  std::optional<int> status;  // from waitpid
  int order = 0;              // the order in which the ranks ended
  int sent = 0;  // the signal that the launcher sent to this rank after another one failed
};

// Socket pairs between rank 0 and each other rank, for the ranks' rendezvous store
// (comm/store/private_store.h) or for a prompt's lines. One socket of each pair belongs to rank 0.
class RankSockets {
 public:
  explicit RankSockets(int ranks) : ends_(ranks, {-1, -1}) {
    for (int rank = 1; rank < ranks; ++rank) {
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_[rank].data()) != 0)
        EndWithout(rank, ends_.size());
    }
  }
  ~RankSockets() {
    for (const auto& ends : ends_) {
      for (const int end : ends) {
        if (end >= 0) close(end);
      }
    }
  }
  RankSockets(const RankSockets&) = delete;
  RankSockets& operator=(const RankSockets&) = delete;

  // Called in the child process that becomes `rank`: keeps the rank's sockets open, and returns
  // their numbers for the rank's environment variable.
  std::string KeepFor(int rank) {
    std::vector<int> kept;
    const auto keep = [&kept](int& end) { kept.push_back(std::exchange(end, -1)); };
    if (rank > 0) keep(ends_[rank][1]);
    for (size_t other = 1; rank == 0 && other < ends_.size(); ++other) keep(ends_[other][0]);
    return absl::StrJoin(kept, ",");
  }

 private:
  std::vector<std::array<int, 2>> ends_;
};

// Returns this rank's pipe to the launcher. Returns -1 in a program that a rank has started, which
// inherits the environment variable but not the pipe.
int ErrorPipe() {
  int fd = -1;
  struct stat status {};
  const char* text = std::getenv(kErrorPipe);
  return text != nullptr && absl::SimpleAtoi(text, &fd) && fstat(fd, &status) == 0 &&
                 S_ISFIFO(status.st_mode)
             ? fd
             : -1;
}

// While Hold() is in effect, signals to this thread are blocked.
class HeldSignals {
 public:
  HeldSignals() = default;
  ~HeldSignals() { Release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  void Hold() {
    sigset_t all;
    sigfillset(&all);
    if (!std::exchange(holds_, true)) pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  void Release() {
    if (std::exchange(holds_, false)) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  bool holds_ = false;
  sigset_t before_ = {};
};

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP};  // signals that end a run

class Launcher {
 public:
  // The constructor starts the ranks. It returns in the launcher, and in each rank.
  Launcher(int ranks, int restart, bool prompt, const Arrivals& arrivals)
      : arrivals_(arrivals), prompt_(prompt), ranks_(ranks) {
    RankSockets store(ranks), lines(prompt ? ranks : 0);
    for (int rank = 0; rank < ranks && !is_rank_; ++rank) {
      if (!Fork(rank)) continue;
      is_rank_ = true;
      SetEnvironment("MOONRING_STORE", store.KeepFor(rank));
      if (prompt) SetEnvironment("MOONRING_PROMPT", lines.KeepFor(rank));
      SetEnvironment("TORCHELASTIC_RESTART_COUNT", absl::StrCat(restart));
    }
  }
  ~Launcher() {
    for (const Rank& rank : ranks_) {
      for (const int end : {rank.error_pipe, rank.stderr_pipe}) {
        if (end >= 0) close(end);
      }
    }
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  bool is_rank() const { return is_rank_; }

  int Run() {
    while (Running() > 0 || OpenPipes() > 0) {
      Poll();
      Enforce();
      if (Running() == 0 && ++drained_ > 50) break;  // a grandchild may keep a pipe open
    }
    return Conclude();
  }

  // Call this after Run: how often the ranks may be restarted in total; 0 if the failure would
  // recur.
  int restarts() const { return again_ ? restarts_ : 0; }

 private:
  static void SetEnvironment(const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  }

  // Forks a rank, creates its pipes, and sets the environment variables that are the same in every
  // attempt. Returns true in the child process.
  bool Fork(int rank) {
    int error_pipe[2] = {-1, -1}, stderr_pipe[2] = {-1, -1};
    if (pipe2(error_pipe, O_CLOEXEC) != 0 || (rank > 0 && pipe2(stderr_pipe, O_CLOEXEC) != 0))
      EndWithout(rank, ranks_.size());
    const pid_t launcher = getpid();
    const pid_t pid = fork();
    if (pid < 0) EndWithout(rank, ranks_.size());
    if (pid != 0) {
      close(error_pipe[1]);
      if (rank > 0) close(stderr_pipe[1]);
      ranks_[rank].pid = pid;
      ranks_[rank].error_pipe = error_pipe[0];
      ranks_[rank].stderr_pipe = stderr_pipe[0];
      return false;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // the launcher died before prctl
    close(error_pipe[0]);
    if (rank > 0) {
      dup2(stderr_pipe[1], STDERR_FILENO);
      for (const int end : stderr_pipe) close(end);
    }
    for (const char* name : {"RANK", "LOCAL_RANK"}) SetEnvironment(name, absl::StrCat(rank));
    for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"})
      SetEnvironment(name, absl::StrCat(ranks_.size()));
    SetEnvironment(kErrorPipe, absl::StrCat(error_pipe[1]));
    return true;
  }

  int Running() const {
    return static_cast<int>(std::count_if(
        ranks_.begin(), ranks_.end(), [](const Rank& rank) { return !rank.status.has_value(); }));
  }
  int OpenPipes() const {
    int open = 0;
    for (const Rank& rank : ranks_) open += (rank.error_pipe >= 0) + (rank.stderr_pipe >= 0);
    return open;
  }

  void Poll() {
    std::vector<pollfd> fds = {{arrivals_.descriptor(), POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      fds.push_back({rank.error_pipe, POLLIN, 0});  // poll ignores negative descriptors
      fds.push_back({rank.stderr_pipe, POLLIN, 0});
    }
    if (poll(fds.data(), fds.size(), 100) < 0) return;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (fds[1 + 2 * r].revents != 0) {
        Read(ranks_[r].error_pipe, ranks_[r].message);
        TakeOffer(ranks_[r].message);
      }
      if (fds[2 + 2 * r].revents != 0) {
        Read(ranks_[r].stderr_pipe, ranks_[r].line);
        PrintLines(static_cast<int>(r), /*all=*/ranks_[r].stderr_pipe < 0);
      }
    }
    for (Arrival arrival; arrivals_.Next(arrival);) {
      if (arrival.signal != SIGCHLD) Forward(arrival);
    }
    Reap();
  }

  static void Read(int& fd, std::string& text) {
    char buffer[4096];
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size > 0) {
      text.append(buffer, size);
    } else if (size == 0 || errno != EINTR) {
      close(fd);
      fd = -1;
    }
  }

  void TakeOffer(std::string& message) {
    const size_t end = message.find('\0');
    if (end == std::string::npos) return;
    if (int offered = 0; absl::SimpleAtoi(message.substr(0, end), &offered))
      restarts_ = std::max(restarts_, offered);
    message.erase(0, end + 1);
  }

  void PrintLines(int rank, bool all) {
    std::string& text = ranks_[rank].line;
    for (size_t end; (end = text.find('\n')) != std::string::npos || (all && !text.empty());) {
      const std::string line = text.substr(0, std::min(end, text.size()));
      text.erase(0, end == std::string::npos ? text.size() : end + 1);
      std::fprintf(stderr, "[rank %d] %s\n", rank, base::VisibleText(line).c_str());
    }
  }

  void Forward(Arrival arrival) {
    if (arrival.signal != SIGUSR1 && !(prompt_ && arrival.signal == SIGINT)) {
      if (forwarded_ == 0) forwarded_ = arrival.signal;
      // After a second signal, ranks that do not end are forced to end.
      if (arrival.times > 1 && !failed_at_.has_value())
        failed_at_ = std::chrono::steady_clock::now();
    }
    for (const Rank& rank : ranks_) {
      if (!rank.status.has_value()) PassOn(rank.pid, arrival.signal, arrival.times);
    }
  }

  void Reap() {
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      for (Rank& rank : ranks_) {
        if (rank.pid != pid) continue;
        rank.status = status;
        rank.order = ++ended_;
        rank.sent = sent_;
        if (status != 0 && !failed_at_.has_value()) failed_at_ = std::chrono::steady_clock::now();
      }
    }
  }

  // Called after a failure: ends ranks that exceed their time limits.
  void Enforce() {
    if (!failed_at_.has_value() || Running() == 0) return;
    const auto since = std::chrono::steady_clock::now() - *failed_at_;
    const int signal = since > kGrace + kPatience ? SIGKILL : since > kGrace ? SIGTERM : 0;
    if (signal == 0 || signal == sent_) return;
    sent_ = signal;
    for (Rank& rank : ranks_) {
      if (rank.status.has_value()) continue;
      kill(rank.pid, SIGCONT);  // a stopped process would not receive SIGTERM
      kill(rank.pid, signal);
    }
  }

  // A number that orders ranks by how likely they failed by themselves, the lowest first: a rank
  // ended by a signal that the launcher did not send, a rank with an error of its own, a rank with
  // an error about another rank.
  int Blame(const Rank& rank) const {
    const int status = *rank.status;
    if (status == 0) return 9;
    if (WIFSIGNALED(status))
      return rank.sent != 0 && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGKILL) ? 8 : 0;
    const absl::StatusCode code = LastError(rank).code;
    const bool about_a_peer = code == absl::StatusCode::kUnavailable ||
                              code == absl::StatusCode::kDeadlineExceeded ||
                              code == absl::StatusCode::kAborted;
    return about_a_peer ? 2 : 1;
  }

  // The error that the rank has reported; without a message if there is none.
  static ErrorValue LastError(const Rank& rank) {
    const size_t end = rank.message.find('\n');
    int code = 0;
    if (end == std::string::npos || !absl::SimpleAtoi(rank.message.substr(0, end), &code))
      return {.message = rank.message};
    return {.code = static_cast<absl::StatusCode>(code), .message = rank.message.substr(end + 1)};
  }

  static std::string Words(const Rank& rank) {
    const std::string message = LastError(rank).message;
    if (WIFSIGNALED(*rank.status)) {
      const int signal = WTERMSIG(*rank.status);
      return absl::StrCat(message, message.empty() ? "" : "; ", "ended by signal ", signal, " (",
                          strsignal(signal), ")");
    }
    return message.empty()
               ? absl::StrCat("ended with exit code ", WEXITSTATUS(*rank.status), " and no message")
               : message;
  }

  int Conclude() {
    const bool done = std::all_of(ranks_.begin(), ranks_.end(),
                                  [](const Rank& rank) { return *rank.status == 0; });
    if (done) return 0;
    for (const int signal : kEnding) {  // the signal came to one rank, and all agreed to end by it
      const auto ended = [signal](const Rank& rank) {
        return WIFSIGNALED(*rank.status) && WTERMSIG(*rank.status) == signal && rank.sent != signal;
      };
      if (std::all_of(ranks_.begin(), ranks_.end(), ended)) forwarded_ = signal;
    }
    if (forwarded_ != 0) {  // ended as requested: by the same signal
      signal(forwarded_, SIG_DFL);
      raise(forwarded_);
      return 128 + forwarded_;
    }
    std::vector<int> failed;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (Blame(ranks_[r]) < 8) failed.push_back(static_cast<int>(r));
    }
    std::sort(failed.begin(), failed.end(), [this](int a, int b) {
      return std::make_pair(Blame(ranks_[a]), ranks_[a].order) <
             std::make_pair(Blame(ranks_[b]), ranks_[b].order);
    });
    bool same = true;
    for (const int rank : failed) same = same && Words(ranks_[rank]) == Words(ranks_[failed[0]]);
    for (const int rank : failed) {
      const std::string words = Words(ranks_[rank]);
      if (same && rank != failed[0])
        break;  // an error that every rank has (such as a configuration's) is printed once
      if (same && failed.size() == ranks_.size()) {
        std::fprintf(stderr, "moonring: %s\n", words.c_str());
      } else {
        std::fprintf(stderr, "moonring: rank %d of %zu: %s\n", rank, ranks_.size(), words.c_str());
      }
    }
    const int status = *ranks_[failed[0]].status;
    const bool asked = WIFSIGNALED(status) &&
                       std::count(std::begin(kEnding), std::end(kEnding), WTERMSIG(status)) > 0;
    again_ = !asked && !(WIFEXITED(status) && WEXITSTATUS(status) == 2) &&
             LastError(ranks_[failed[0]]).code != absl::StatusCode::kAborted;
    return WIFSIGNALED(status) ? 1 : WEXITSTATUS(status);
  }

  const Arrivals& arrivals_;
  const bool prompt_;
  bool is_rank_ = false;
  std::vector<Rank> ranks_;
  int forwarded_ = 0, sent_ = 0, ended_ = 0, drained_ = 0, restarts_ = 0;
  bool again_ = false;  // another attempt may succeed
  std::optional<std::chrono::steady_clock::time_point> failed_at_;
};

}  // namespace

absl::Status CheckRanks(int ranks) {
  constexpr int kAtLeast = 64, kPerCore = 8;
  // Number of descriptors that the launcher needs: some for itself, and for each rank four while
  // the ranks start, namely both ends of the store's socket pair and two pipes that the launcher
  // reads. (Rank 0 has the same limit and needs no more: for each other rank two sockets of the
  // store, and a connection in each group of ranks that they share.)
  constexpr rlim_t kOtherFiles = 32, kFilesOfRank = 4;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto check = [ranks](rlim_t most, const std::string& why) {
    if (static_cast<rlim_t>(ranks) <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        ranks,
        " ranks are requested (sequence_parallel_size, or -n), and this machine starts at most ",
        most, ": ", why));
  };
  RETURN_IF_ERROR(check(std::max(kAtLeast, kPerCore * cores),
                        absl::StrCat("the larger of ", kAtLeast, " and ", kPerCore,
                                     " for each of its ", cores, " cores")));
  rlimit limit = {};
  if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    RETURN_IF_ERROR(check(limit.rlim_cur, absl::StrCat("the user may have ", limit.rlim_cur,
                                                       " processes (ulimit -u)")));
  }
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const rlim_t room =
        limit.rlim_cur > kOtherFiles ? (limit.rlim_cur - kOtherFiles) / kFilesOfRank : 0;
    RETURN_IF_ERROR(check(
        room, absl::StrCat("a process may have ", limit.rlim_cur, " open files (ulimit -n)")));
  }
  return absl::OkStatus();
}

std::optional<int> LaunchRanks(int ranks, bool prompt) {
  std::fflush(nullptr);     // prints buffered output once, not in each rank
  HeldSignals held;         // until the rank has restored the previous handlers
  const Arrivals arrivals;  // for all attempts, because signals between two attempts must be
                            // received too
  for (int restart = 0;; ++restart) {
    held.Hold();
    Launcher launcher(ranks, restart, prompt, arrivals);
    if (launcher.is_rank()) return std::nullopt;
    held.Release();
    const int code = launcher.Run();
    if (code == 0 || restart >= launcher.restarts()) return code;
    std::fprintf(stderr, "moonring: starts again (%d of %d)\n", restart + 1, launcher.restarts());
  }
}

void BecomeLauncher(int ranks, const std::vector<std::string>& command) {
  std::fflush(nullptr);
  setenv(kRanksToLaunch, absl::StrCat(ranks).c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ExecUnconfined("/proc/self/exe", argv.data());
  std::fprintf(stderr, "moonring: cannot start the launcher of %d ranks: %s\n", ranks,
               std::strerror(errno));
  std::_Exit(1);
}

int TakeRanksToLaunch() {
  int ranks = 0;
  if (const char* text = std::getenv(kRanksToLaunch)) (void)absl::SimpleAtoi(text, &ranks);
  unsetenv(kRanksToLaunch);
  return ranks;
}

void OfferRestarts(int restarts) {
  const std::string offer = absl::StrCat(restarts, absl::string_view("\0", 1));
  if (const int fd = ErrorPipe(); fd >= 0) (void)!write(fd, offer.data(), offer.size());
}

void ReportError(const ErrorValue& error, const std::string& more) {
  // The message may quote a file, a hub or a model. A NUL in it is escaped, because the launcher
  // would take it for the end of an offer of restarts.
  const std::string message = base::VisibleText(error.Shown() + more);
  const std::string line = absl::StrCat(static_cast<int>(error.code), "\n", message);
  const int fd = ErrorPipe();
  if (fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  std::fprintf(stderr, "moonring: %s\n", message.c_str());
}

}  // namespace moonring::lua
