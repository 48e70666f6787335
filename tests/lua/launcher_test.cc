// Ranks as processes: LaunchRanks runs in a separate process, whose output and exit code are
// checked; a scenario is the code that a rank runs there.

#include "lua/host/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/host/preemption.h"

namespace moonring::lua {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// What a rank does
// -------------------------------------------------------------------------------------------------

void Say(const std::string& line) {
  const std::string text = line + "\n";
  (void)!write(STDERR_FILENO, text.data(),
               text.size());  // one unbuffered write per line
}

[[noreturn]] void Fail(int code, const ErrorValue& error) {
  ReportError(error);
  _exit(code);
}

ErrorValue Unavailable(const std::string& message) {
  return {absl::StatusCode::kUnavailable, message};
}

ErrorValue Aborted(const std::string& message) { return {absl::StatusCode::kAborted, message}; }

const ErrorValue kUnknownKey = {absl::StatusCode::kInvalidArgument, "train.yaml:1: unknown key"};

[[noreturn]] void Sleep() {
  while (true) pause();
}

// Returns the path of a file by which ranks of a launch communicate. Its name contains the
// launcher's process id.
std::string MarkOf(const std::string& what) {
  return absl::StrCat(::testing::TempDir(), "/launcher_", getppid(), "_", what);
}
void Mark(const std::string& what) { close(open(MarkOf(what).c_str(), O_CREAT | O_WRONLY, 0600)); }
void Await(const std::string& what) {
  while (access(MarkOf(what).c_str(), F_OK) != 0) usleep(1000);
}
// Creates such a file with the rank's process id as contents.
void MarkProcess(const std::string& what) {
  const std::string draft = MarkOf(absl::StrCat("draft ", getpid()));
  std::ofstream(draft) << getpid();
  std::rename(draft.c_str(), MarkOf(what).c_str());
}
pid_t AwaitProcess(const std::string& what) {
  Await(what);
  pid_t pid = -1;
  std::ifstream(MarkOf(what)) >> pid;
  return pid;
}

const char* Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "-";
}

int OpenFiles() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

const std::map<std::string, std::function<void(int rank)>>& Scenarios() {
  static const auto* scenarios = new std::map<std::string, std::function<void(int)>>{
      {"environment",
       [](int) {
         Say(absl::StrCat(Environment("RANK"), " ", Environment("LOCAL_RANK"), " of ",
                          Environment("WORLD_SIZE"), " ", Environment("LOCAL_WORLD_SIZE")));
       }},
      {"store",
       [](int rank) {
         std::string heard;
         for (const absl::string_view text : absl::StrSplit(Environment("MOONRING_STORE"), ',')) {
           int socket = -1;
           char byte = static_cast<char>('0' + rank);
           const bool moved = absl::SimpleAtoi(text, &socket) && write(socket, &byte, 1) == 1 &&
                              read(socket, &byte, 1) == 1;
           heard += moved ? byte : '-';
         }
         Say("hears " + heard);
       }},
      // Prints how many files are open in addition to the test's own, which were counted before.
      {"open files",
       [](int) { Say(absl::StrCat(OpenFiles() - std::atoi(Environment("OPEN_FILES")), " more")); }},
      {"no line feed",
       [](int rank) {
         if (rank == 1) (void)!write(STDERR_FILENO, "half a line", 11);
       }},
      // Rank 2 fails by itself; the other ranks (victims) report that it is gone, and end before it
      // ends. No victim ends before all ranks have started: once one rank has ended, the launcher
      // waits only some seconds for the messages of the others, too short a time if a rank had yet
      // to start.
      {"victims first",
       [](int rank) {
         if (rank != 2) {
           ReportError(
               {absl::StatusCode::kUnavailable, "rank 2 is gone", "script.lua:3: comm.mesh"});
           MarkProcess(absl::StrCat("told ", rank));
           Await("all have told");
           _exit(1);
         }
         std::vector<pid_t> victims;
         for (const char* told : {"told 0", "told 1", "told 3"})
           victims.push_back(AwaitProcess(told));
         Mark("all have told");
         for (const pid_t victim : victims) {
           while (kill(victim, 0) == 0) usleep(1000);  // until the launcher has reaped it
         }
         Fail(2, {absl::StatusCode::kNotFound, "the file is missing"});
       }},
      {"all the same", [](int) { Fail(2, kUnknownKey); }},
      {"no words",
       [](int rank) {
         if (rank == 1) _exit(7);
       }},
      {"a signal",
       [](int rank) {
         if (rank == 1) raise(SIGABRT);
         else Sleep();
       }},
      {"one hangs, one ignores TERM",
       [](int rank) {
         if (rank == 0) {
           Await("ready 1"), Await("ready 2");
           Fail(1, Aborted("the gradient's norm is nan"));
         }
         if (rank == 1)
           signal(SIGTERM,
                  [](int) { Say("asked to end"), signal(SIGTERM, SIG_DFL), raise(SIGTERM); });
         if (rank == 2) signal(SIGTERM, SIG_IGN);
         Mark(absl::StrCat("ready ", rank));
         Sleep();
       }},
      {"killed after another is done",
       [](int rank) {
         if (rank == 0) return;
         if (rank == 2) Sleep();
         usleep(300'000);  // rank 0 has most likely ended; the message does not depend on it
         raise(SIGKILL);   // like the kernel when memory is exhausted
       }},
      {"fails twice, then ends well",
       [](int rank) {
         OfferRestarts(3);
         const int restart = std::atoi(Environment("TORCHELASTIC_RESTART_COUNT"));
         if (rank == 0) Say(absl::StrCat("attempt ", restart));
         if (rank == 1 && restart == 0) raise(SIGKILL);
         if (rank == 1 && restart == 1) Fail(1, Unavailable("the network is down"));
       }},
      {"always fails", [](int) { OfferRestarts(2), Fail(1, {.message = "the disk is broken"}); }},
      {"would fail again", [](int) { OfferRestarts(2), Fail(2, kUnknownKey); }},
      {"numbers that are none",
       [](int) { OfferRestarts(2), Fail(1, Aborted("step 3: the loss is nan")); }},
      {"offers and waits", [](int) { OfferRestarts(2), Say("ready"), Sleep(); }},
      {"wait", [](int) { Say("ready"), Sleep(); }},
      {"wait for USR1",
       [](int) {
         signal(SIGUSR1, [](int) { Say("usr1"), _exit(0); });
         Say("ready");
         Sleep();
       }},
      {"fail at USR1",
       [](int) {
         signal(SIGUSR1, [](int) { _exit(5); });
         Say("ready");
         Sleep();
       }},
      // Handles signals like a rank in training: the first signal is recorded and reported on
      // stderr; SIGUSR1 ends the rank successfully.
      {"notes wishes",
       [](int) {
         CatchPreemption(PreemptionAnswer::kAtBorder);
         signal(SIGUSR1, [](int) { _exit(0); });
         Say("ready");
         Sleep();
       }},
      {"notes wishes after the last step",
       [](int) {
         CatchPreemption(PreemptionAnswer::kAtBorder);
         CatchPreemption(PreemptionAnswer::kAtEnd);
         signal(SIGUSR1, [](int) { _exit(0); });
         Say("ready");
         Sleep();
       }},
      {"end well at TERM",
       [](int) {
         signal(SIGTERM, [](int) { _exit(0); });
         Say("ready");
         Sleep();
       }},
  };
  return *scenarios;
}

// What is looked at
// -------------------------------------------------------------------------------------------------

struct Launch {
  int status = 0;  // exit status of the launcher, from waitpid
  std::string output;
  std::vector<std::string> lines() const { return absl::StrSplit(output, '\n', absl::SkipEmpty()); }
};

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// An action on the launcher, executed when every rank has printed `text` and the previous stage is
// done.
struct Stage {
  std::string text;
  std::function<void(pid_t)> act;
};

// Calls `before` and then LaunchRanks in a child process, and returns its result.
Launch LaunchScenario(const std::string& scenario, int ranks, const std::vector<Stage>& stages,
                      const std::function<void()>& before = nullptr) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    if (before) before();
    CatchSaveWish();  // as moonring does before other work
    if (const std::optional<int> code = LaunchRanks(ranks)) _exit(*code);
    Scenarios().at(scenario)(std::atoi(Environment("RANK")));
    _exit(0);
  }
  close(fds[1]);
  Launch launch;
  size_t stage = 0;
  char buffer[4096];
  for (ssize_t size; (size = read(fds[0], buffer, sizeof(buffer))) > 0;) {
    launch.output.append(buffer, size);
    for (; stage < stages.size() &&
           Count(launch.output, stages[stage].text) == static_cast<size_t>(ranks);
         ++stage)
      stages[stage].act(pid);
  }
  close(fds[0]);  // until every process that could write has ended
  waitpid(pid, &launch.status, 0);
  return launch;
}

Launch LaunchScenario(const std::string& scenario, int ranks,
                      const std::function<void(pid_t)>& once_ready = nullptr,
                      const std::function<void()>& before = nullptr) {
  return LaunchScenario(
      scenario, ranks,
      once_ready ? std::vector<Stage>{{"ready\n", once_ready}} : std::vector<Stage>{}, before);
}

int ExitCodeOf(const Launch& launch) {
  return WIFEXITED(launch.status) ? WEXITSTATUS(launch.status) : -1;
}

TEST(Launcher, GivesEachRankTorchrunsEnvironmentAndPrefixesAllButRankZero) {
  const Launch launch = LaunchScenario("environment", 3);
  EXPECT_EQ(ExitCodeOf(launch), 0) << launch.output;
  EXPECT_THAT(launch.lines(),
              UnorderedElementsAre("0 0 of 3 3", "[rank 1] 1 1 of 3 3", "[rank 2] 2 2 of 3 3"));
}

TEST(Launcher, ConnectsEachRankWithRankZero) {
  const Launch launch = LaunchScenario("store", 4);
  EXPECT_EQ(ExitCodeOf(launch), 0) << launch.output;
  EXPECT_THAT(launch.lines(), UnorderedElementsAre("hears 123", "[rank 1] hears 0",
                                                   "[rank 2] hears 0", "[rank 3] hears 0"));
}

TEST(Launcher, IsWhatAProcessWithThreadsBecomes) {
  const auto become = [] {
    std::thread([] { Sleep(); }).detach();
    BecomeLauncher(3, {"launcher_test"});
  };
  const Launch launch = LaunchScenario("none", 1, nullptr, become);
  EXPECT_EQ(ExitCodeOf(launch), 0) << launch.output;
  EXPECT_THAT(launch.lines(), UnorderedElementsAre("0", "[rank 1] 1", "[rank 2] 2"));
}

// A rank only has the file descriptors of its launcher that it needs: at most two pipes, and its
// end of a socket pair.
TEST(Launcher, LeavesARankNoDescriptorOfAnother) {
  const Launch launch = LaunchScenario(
      "open files", 4, nullptr, [] { setenv("OPEN_FILES", absl::StrCat(OpenFiles()).c_str(), 1); });
  EXPECT_EQ(ExitCodeOf(launch), 0) << launch.output;
  EXPECT_THAT(launch.lines(), UnorderedElementsAre("4 more", "[rank 1] 2 more", "[rank 2] 2 more",
                                                   "[rank 3] 2 more"));
}

TEST(Launcher, PrintsALineWithoutItsEnd) {
  EXPECT_THAT(LaunchScenario("no line feed", 2).output, "[rank 1] half a line\n");
}

TEST(Launcher, NamesTheRankThatFailedByItselfFirst) {
  const Launch launch = LaunchScenario("victims first", 4);
  EXPECT_EQ(ExitCodeOf(launch), 2) << "the code is that rank's too";
  ASSERT_THAT(launch.lines(), SizeIs(4)) << launch.output;
  EXPECT_EQ(launch.lines()[0], "moonring: rank 2 of 4: the file is missing");
  EXPECT_THAT(launch.lines()[1], HasSubstr("rank 2 is gone"));
}

TEST(Launcher, SaysOnceWhatAllRanksSay) {
  const Launch launch = LaunchScenario("all the same", 3);
  EXPECT_EQ(ExitCodeOf(launch), 2);
  EXPECT_EQ(launch.output, "moonring: train.yaml:1: unknown key\n");
}

TEST(Launcher, ReportsARankThatEndsWithoutAMessage) {
  const Launch launch = LaunchScenario("no words", 2);
  EXPECT_EQ(ExitCodeOf(launch), 7);
  EXPECT_EQ(launch.output, "moonring: rank 1 of 2: ended with exit code 7 and no message\n");
}

TEST(Launcher, ReportsASignalAndEndsTheOthers) {
  const Launch launch = LaunchScenario("a signal", 2);
  EXPECT_EQ(ExitCodeOf(launch), 1);
  EXPECT_THAT(launch.lines(),
              ElementsAre(StartsWith("moonring: rank 1 of 2: ended by signal 6 (Aborted")));
}

// Ranks that hang are ended with TERM after 3 s and KILL after 5 s, and are not reported as the
// cause.
TEST(Launcher, EndsRanksThatHangWithoutBlamingThem) {
  const Launch launch = LaunchScenario("one hangs, one ignores TERM", 3);
  EXPECT_EQ(ExitCodeOf(launch), 1);
  EXPECT_EQ(launch.output,
            "[rank 1] asked to end\nmoonring: rank 0 of 3: the gradient's norm is nan\n");
}

// A rank that was killed from outside is reported as the cause, although the launcher sends signals
// afterwards and other ranks ended earlier.
TEST(Launcher, BlamesARankThatWasKilledFromOutside) {
  const Launch launch = LaunchScenario("killed after another is done", 3);
  EXPECT_EQ(ExitCodeOf(launch), 1);
  EXPECT_EQ(launch.output, "moonring: rank 1 of 3: ended by signal 9 (Killed)\n");
}

TEST(Launcher, StartsTheRanksAgainAsOftenAsTheyOffered) {
  const Launch well = LaunchScenario("fails twice, then ends well", 2);
  EXPECT_EQ(ExitCodeOf(well), 0) << well.output;
  EXPECT_THAT(well.lines(),
              ElementsAre("attempt 0", "moonring: rank 1 of 2: ended by signal 9 (Killed)",
                          "moonring: starts again (1 of 3)", "attempt 1",
                          "moonring: rank 1 of 2: the network is down",
                          "moonring: starts again (2 of 3)", "attempt 2"));
  const Launch never = LaunchScenario("always fails", 2);
  EXPECT_EQ(ExitCodeOf(never), 1);
  EXPECT_EQ(Count(never.output, "the disk is broken\n"), 3);
  EXPECT_EQ(Count(never.output, "starts again"), 2);
}

TEST(Launcher, DoesNotStartAgainWhatWouldFailAgainOrWasAskedToEnd) {
  EXPECT_EQ(LaunchScenario("would fail again", 2).output, "moonring: train.yaml:1: unknown key\n");
  EXPECT_EQ(Count(LaunchScenario("numbers that are none", 2).output, "starts again"), 0);
  const Launch ended = LaunchScenario("offers and waits", 2, [](pid_t pid) { kill(pid, SIGTERM); });
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGTERM);
  EXPECT_EQ(Count(ended.output, "starts again"), 0);
}

TEST(Launcher, ForwardsSignalsAndEndsByThem) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Launch launch =
        LaunchScenario("wait", 2, [&](pid_t pid) { kill(pid, signal); });  // only to the launcher
    EXPECT_TRUE(WIFSIGNALED(launch.status) && WTERMSIG(launch.status) == signal)
        << strsignal(signal) << ": status " << launch.status;
  }
}

TEST(Launcher, ForwardsUsr1AndContinues) {
  const Launch launch = LaunchScenario("wait for USR1", 2, [](pid_t pid) { kill(pid, SIGUSR1); });
  EXPECT_EQ(ExitCodeOf(launch), 0);
  EXPECT_EQ(Count(launch.output, "usr1\n"), 2) << launch.output;
}

TEST(Launcher, IsDoneWhereAllRanksAreWhateverSignalCame) {
  EXPECT_EQ(
      ExitCodeOf(LaunchScenario("end well at TERM", 2, [](pid_t pid) { kill(pid, SIGTERM); })), 0);
}

// The launcher receives signals on any thread: LibTorch may have started threads before the ranks
// exist, and a signal to the process may be delivered to any of them.
TEST(Launcher, HearsSignalsWhateverThreadTheyComeTo) {
  const auto with_thread = [] { std::thread([] { Sleep(); }).detach(); };
  EXPECT_EQ(ExitCodeOf(LaunchScenario(
                "end well at TERM", 2, [](pid_t pid) { kill(pid, SIGTERM); }, with_thread)),
            0);
  const Launch saved = LaunchScenario(
      "wait for USR1", 2, [](pid_t pid) { kill(pid, SIGUSR1); }, with_thread);
  EXPECT_EQ(ExitCodeOf(saved), 0);
  EXPECT_EQ(Count(saved.output, "usr1\n"), 2) << saved.output;
}

constexpr char kAnswer[] =
    "the run is saved and ends at the border of the next step; once more ends it now\n";

// A signal to the process group counts once, although each rank gets it twice, from the sender and
// from the launcher.
TEST(Launcher, ASignalToTheGroupCountsOnce) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Launch launch = LaunchScenario("notes wishes", 2,
                                         {{"ready\n", [&](pid_t pid) { kill(-pid, signal); }},
                                          {kAnswer, [](pid_t pid) { kill(pid, SIGUSR1); }}},
                                         [] { setpgid(0, 0); });
    EXPECT_EQ(ExitCodeOf(launch), 0) << strsignal(signal) << "\n" << launch.output;
    EXPECT_EQ(Count(launch.output, kAnswer), 2) << launch.output;
  }
}

TEST(Launcher, ASignalAfterTheLastStepIsAnsweredOtherwise) {
  constexpr char kAtEnd[] =
      "SIGTERM: the run is at its end: it is saved and ends by itself; once more ends it now\n";
  const Launch launch = LaunchScenario("notes wishes after the last step", 2,
                                       {{"ready\n", [](pid_t pid) { kill(pid, SIGTERM); }},
                                        {kAtEnd, [](pid_t pid) { kill(pid, SIGUSR1); }}});
  EXPECT_EQ(ExitCodeOf(launch), 0) << launch.output;
  EXPECT_EQ(Count(launch.output, kAtEnd), 2) << launch.output;
}

// The controlling terminal of a launch, whose session ends with the object.
class Terminal {
 public:
  Terminal() {
    EXPECT_EQ(openpty(&keys_, &screen_, nullptr, nullptr, nullptr), 0);
    fcntl(keys_, F_SETFD, FD_CLOEXEC);
  }
  ~Terminal() { close(keys_), close(screen_); }
  void Take() const {  // in the child
    setsid();
    ioctl(screen_, TIOCSCTTY, 0);
  }
  void PressCtrlC() const { EXPECT_EQ(write(keys_, "\x03", 1), 1); }

 private:
  int keys_ = -1, screen_ = -1;
};

// The second Ctrl-C ends the run immediately. The terminal sends it to the launcher and to each
// rank at the same time.
TEST(Launcher, TheSecondCtrlCEndsNow) {
  for (const bool again : {false, true}) {
    const Terminal terminal;
    const auto press = [&](pid_t) { terminal.PressCtrlC(); };
    const Stage second =
        again ? Stage{kAnswer, press} : Stage{kAnswer, [](pid_t pid) { kill(pid, SIGUSR1); }};
    const Launch launch =
        LaunchScenario("notes wishes", 2, {{"ready\n", press}, second}, [&] { terminal.Take(); });
    if (again) {
      EXPECT_TRUE(WIFSIGNALED(launch.status) && WTERMSIG(launch.status) == SIGINT)
          << launch.status << "\n"
          << launch.output;
    } else {
      EXPECT_EQ(ExitCodeOf(launch), 0) << launch.output;
    }
  }
}

// A signal that was ignored at the start stays ignored. With nohup moonring -n 2 ..., the end of
// the terminal must not end the run or change its exit code.
TEST(Launcher, LeavesASignalIgnoredThatWasIgnored) {
  const Launch launch = LaunchScenario(
      "fail at USR1", 2,
      [](pid_t pid) {
        kill(pid, SIGHUP);
        kill(pid, SIGUSR1);
      },
      [] { signal(SIGHUP, SIG_IGN); });
  EXPECT_EQ(ExitCodeOf(launch), 5) << launch.output;
}

TEST(Launcher, RanksLeaveASignalIgnoredToo) {
  const Launch launch = LaunchScenario(
      "notes wishes", 2,
      [](pid_t pid) {
        kill(-pid, SIGHUP);
        kill(pid, SIGUSR1);
      },
      [] { setpgid(0, 0), signal(SIGHUP, SIG_IGN); });
  EXPECT_EQ(ExitCodeOf(launch), 0) << launch.output;
  EXPECT_EQ(Count(launch.output, "SIGHUP"), 0) << launch.output;
}

TEST(CheckRanks, BoundsWhatAMachineStarts) {
  const int most = std::max<int>(64, 8 * static_cast<int>(std::thread::hardware_concurrency()));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_cur >= 32 + 4 * static_cast<rlim_t>(most)) {
    EXPECT_TRUE(CheckRanks(1).ok() && CheckRanks(most).ok());
    const absl::Status refused = CheckRanks(100'000);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(refused.message()),
        StartsWith(absl::StrCat("100000 ranks are requested (sequence_parallel_size, or -n), "
                                "and this machine starts at most ",
                                most, ": the larger of 64 and 8 ")));
  }
  const rlimit few{48, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_TRUE(CheckRanks(4).ok());
  EXPECT_THAT(std::string(CheckRanks(5).message()),
              HasSubstr("at most 4: a process may have 48 open files (ulimit -n)"));
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Launcher, SaysWhichLimitKeepsARankFromStarting) {
  const auto few = [] {
    const rlimit limit{24, 24};
    setrlimit(RLIMIT_NOFILE, &limit);
  };
  const Launch launch = LaunchScenario("environment", 16, nullptr, few);
  EXPECT_EQ(ExitCodeOf(launch), 2) << launch.output;
  EXPECT_THAT(launch.output, HasSubstr(" of 16 cannot be started: Too many open files; a process "
                                       "may have 24 open files (ulimit -n)\n"));
}

// If the launcher is killed, its ranks end. LaunchScenario returns when no process has the pipe
// open; if a rank outlived its launcher, this test would time out.
TEST(Launcher, EndsItsRanksWhenItEnds) {
  const Launch launch = LaunchScenario("wait", 3, [](pid_t pid) { kill(pid, SIGKILL); });
  EXPECT_TRUE(WIFSIGNALED(launch.status) && WTERMSIG(launch.status) == SIGKILL);
}

TEST(ReportError, IsForTheTerminalWithoutALauncher) {
  ::testing::internal::CaptureStderr();
  ReportError(kUnknownKey);
  ReportError({absl::StatusCode::kInvalidArgument, "sp=3", "script.lua:1: comm.mesh"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "moonring: train.yaml:1: unknown key\nmoonring: script.lua:1: comm.mesh: "
            "INVALID_ARGUMENT: sp=3\n");
}

}  // namespace
}  // namespace moonring::lua

int main(int argc, char** argv) {
  // Set by BecomeLauncher.
  if (const int ranks = moonring::lua::TakeRanksToLaunch(); ranks > 0) {
    if (const std::optional<int> code = moonring::lua::LaunchRanks(ranks)) return *code;
    moonring::lua::Say(moonring::lua::Environment("RANK"));
    return 0;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
