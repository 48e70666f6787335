#include "lua/launcher.h"

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
#include "lua/arrivals.h"
#include "lua/signal_count.h"
#include "lua/unconfined_exec.h"

namespace moonring::lua {
namespace {

constexpr auto kGrace =
    std::chrono::seconds(3);  // for the others' messages, after the first failure
constexpr auto kPatience = std::chrono::seconds(5);  // from TERM to KILL
// Its words: an offer of restarts, ended by a zero byte, and the last message.
constexpr char kErrorPipe[] = "MOONRING_ERROR_PIPE";
// From BecomeLauncher to the launcher.
constexpr char kRanksToLaunch[] = "MOONRING_RANKS";

// "INVALID_ARGUMENT: words" -> "words": a status word says nothing to who typed a command.
std::string WithoutStatusWord(const std::string& message) {
  const size_t end = message.find(": ");
  const bool is_word = end != std::string::npos && end > 2 &&
                       message.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == end;
  return is_word ? message.substr(end + 2) : message;
}

// What a rank needs of the system is not to be had (errno). Ends the launcher, with exit code 2
// where it is a limit: that is there before the first step.
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
  int error_pipe = -1;   // the last message
  int stderr_pipe = -1;  // -1 for rank 0
  std::string message, line;
  std::optional<int> status;  // as waitpid gives it
  int order = 0;              // among those that ended
  int sent = 0;  // the signal that the launcher had sent it by then, after another's failure
};

// What the ranks' store goes through (comm/store/private_store.h), or a prompt's lines: for each
// rank but 0 two connected sockets, rank 0's end and its own.
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

  // In the child that becomes `rank`: its ends stay open. What it has to know of them.
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

// -1 where this process has no launcher: what a rank starts has its environment, not its pipe.
int ErrorPipe() {
  int fd = -1;
  struct stat status {};
  const char* text = std::getenv(kErrorPipe);
  return text != nullptr && absl::SimpleAtoi(text, &fd) && fstat(fd, &status) == 0 &&
                 S_ISFIFO(status.st_mode)
             ? fd
             : -1;
}

// Signals to this thread wait while they are held.
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

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP};  // those that end a run

class Launcher {
 public:
  // Returns in the launcher, and in each rank.
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
      if (Running() == 0 && ++drained_ > 50) break;  // a grandchild may hold a pipe open
    }
    return Conclude();
  }

  // After Run: how often the ranks may be started again in all; 0 where what failed would fail
  // again.
  int restarts() const { return again_ ? restarts_ : 0; }

 private:
  static void SetEnvironment(const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  }

  // Whether this is the child that becomes `rank`: with the pipes and the environment that do not
  // differ between attempts.
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
    if (getppid() != launcher) _exit(1);  // it died before prctl
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
      fds.push_back({rank.error_pipe, POLLIN, 0});  // a negative one is passed over
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
      // Those that do not end now are made to.
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

  // After a failure: the others' time runs out.
  void Enforce() {
    if (!failed_at_.has_value() || Running() == 0) return;
    const auto since = std::chrono::steady_clock::now() - *failed_at_;
    const int signal = since > kGrace + kPatience ? SIGKILL : since > kGrace ? SIGTERM : 0;
    if (signal == 0 || signal == sent_) return;
    sent_ = signal;
    for (Rank& rank : ranks_) {
      if (rank.status.has_value()) continue;
      kill(rank.pid, SIGCONT);  // a stopped process would not see TERM
      kill(rank.pid, signal);
    }
  }

  // Lower is likelier to have failed by itself: a signal that we did not send, an error of its own,
  // an error about a peer.
  int Blame(const Rank& rank) const {
    const int status = *rank.status;
    if (status == 0) return 9;
    if (WIFSIGNALED(status))
      return rank.sent != 0 && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGKILL) ? 8 : 0;
    const bool about_a_peer = absl::StrContains(rank.message, "UNAVAILABLE: ") ||
                              absl::StrContains(rank.message, "DEADLINE_EXCEEDED: ") ||
                              absl::StrContains(rank.message, "ABORTED: ");
    return about_a_peer ? 2 : 1;
  }

  static std::string Words(const Rank& rank) {
    if (WIFSIGNALED(*rank.status)) {
      const int signal = WTERMSIG(*rank.status);
      return absl::StrCat(rank.message, rank.message.empty() ? "" : "; ", "ended by signal ",
                          signal, " (", strsignal(signal), ")");
    }
    return rank.message.empty()
               ? absl::StrCat("ended with exit code ", WEXITSTATUS(*rank.status), " and no message")
               : WithoutStatusWord(rank.message);
  }

  int Conclude() {
    const bool done = std::all_of(ranks_.begin(), ranks_.end(),
                                  [](const Rank& rank) { return *rank.status == 0; });
    if (done) return 0;
    for (const int signal : kEnding) {  // it came to a rank alone, and all agreed to end by it
      const auto ended = [signal](const Rank& rank) {
        return WIFSIGNALED(*rank.status) && WTERMSIG(*rank.status) == signal && rank.sent != signal;
      };
      if (std::all_of(ranks_.begin(), ranks_.end(), ended)) forwarded_ = signal;
    }
    if (forwarded_ != 0) {  // ended as asked: by the same signal
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
        break;  // what every rank sees (a configuration, say) is said once
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
             !absl::StrContains(ranks_[failed[0]].message, "ABORTED: ");
    return WIFSIGNALED(status) ? 1 : WEXITSTATUS(status);
  }

  const Arrivals& arrivals_;
  const bool prompt_;
  bool is_rank_ = false;
  std::vector<Rank> ranks_;
  int forwarded_ = 0, sent_ = 0, ended_ = 0, drained_ = 0, restarts_ = 0;
  bool again_ = false;  // another attempt could go better
  std::optional<std::chrono::steady_clock::time_point> failed_at_;
};

}  // namespace

absl::Status CheckRanks(int ranks) {
  constexpr int kAtLeast = 64, kPerCore = 8;
  // The launcher's own; and for each rank, while they start, both ends of the store's socket pair
  // and those of two pipes that the launcher reads. (Rank 0, which has the same limit, needs as
  // many for each other rank: two sockets of the store, and a connection of each common group.)
  constexpr rlim_t kOtherFiles = 32, kFilesOfRank = 4;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto check = [ranks](rlim_t most, const std::string& why) {
    if (static_cast<rlim_t>(ranks) <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        ranks,
        " ranks are wanted (sequence_parallel_size, or -n), and this machine starts at most ", most,
        ": ", why));
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
  std::fflush(nullptr);     // what waits in a buffer is written once, not by each rank
  HeldSignals held;         // till a rank has the handlers of before
  const Arrivals arrivals;  // of all attempts: between two of them it must be heard too
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

void ReportError(const std::string& said) {
  // It may quote a file, a hub or a model. A NUL would be taken for the end of an offer.
  const std::string message = base::VisibleText(said);
  const int fd = ErrorPipe();
  if (fd >= 0 && write(fd, message.data(), message.size()) == static_cast<ssize_t>(message.size()))
    return;
  std::fprintf(stderr, "moonring: %s\n", WithoutStatusWord(message).c_str());
}

}  // namespace moonring::lua
