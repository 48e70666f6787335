// `moonring repl` at a terminal with typed input, and with input from a pipe; `-e`; and a script on
// stdin.

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

#include "absl/strings/str_cat.h"
#include "tests/scripts/workplace.h"

namespace moonring::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTab[] = "\t", kEnter[] = "\r", kCtrlC[] = "\x03", kCtrlD[] = "\x04",
               kCtrlU[] = "\x15", kUp[] = "\x10";

// Runs the host as the foreground process of a pseudo-terminal. Each search continues after the
// text that was found last.
class PromptTerminal {
 public:
  explicit PromptTerminal(const CommandOptions& options) {
    const std::string host = std::filesystem::absolute("moonring");
    std::vector<char*> words = {const_cast<char*>(host.c_str())};
    for (const std::string& word : options.arguments)
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    winsize size = {.ws_row = 60, .ws_col = 200};
    pid_ = forkpty(&keys_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      signal(SIGINT, SIG_DFL);
      for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
      if (chdir(options.folder.c_str()) == 0) execv(words[0], words.data());
      _exit(127);
    }
    fcntl(keys_, F_SETFL, O_NONBLOCK);
    fcntl(keys_, F_SETFD, FD_CLOEXEC);
  }
  ~PromptTerminal() {
    if (!ended_) kill(-pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close(keys_);
  }
  PromptTerminal(const PromptTerminal&) = delete;
  PromptTerminal& operator=(const PromptTerminal&) = delete;

  void Type(const std::string& keys) {
    for (size_t at = 0; at < keys.size();) {
      const ssize_t size = write(keys_, keys.data() + at, keys.size() - at);
      if (size > 0) at += size;
      Read();
    }
  }
  void TypeLine(const std::string& line) { Type(line + kEnter); }

  ::testing::AssertionResult Shows(const std::string& text) {
    size_t found = std::string::npos;
    Await([&] {
      const bool open = Read();
      found = said_.find(text, seen_);
      return found != std::string::npos || !open;
    });
    if (found == std::string::npos)
      return ::testing::AssertionFailure() << "no '" << text << "' behind\n"
                                           << said_.substr(0, seen_) << "\n----\n"
                                           << said_.substr(seen_);
    seen_ = found + text.size();
    return ::testing::AssertionSuccess();
  }
  // Expects a value on a line of its own, unlike the echo of the typed text.
  ::testing::AssertionResult ShowsLine(const std::string& line) {
    const ::testing::AssertionResult shown = Shows(absl::StrCat("\n", line, "\r\n"));
    if (shown) --seen_;  // the next line may follow immediately
    return shown;
  }

  const std::string& said() const { return said_; }

  // Returns the exit code as a shell reports it, or -1 if the process hangs.
  int Wait() {
    int status = 0;
    ended_ = Await([&] {
      Read();
      return waitpid(pid_, &status, WNOHANG) == pid_;
    });
    if (!ended_) return -1;
    Read();
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  // Reads the available output; returns false at its end.
  bool Read() {
    char buffer[4096];
    ssize_t size;
    while ((size = read(keys_, buffer, sizeof(buffer))) > 0) said_.append(buffer, size);
    return size < 0 && (errno == EAGAIN || errno == EINTR);
  }

  pid_t pid_ = -1;
  int keys_ = -1;
  bool ended_ = false;
  std::string said_;
  size_t seen_ = 0;
};

class Prompt : public Workplace {
 protected:
  CommandOptions At(std::vector<std::string> arguments) const {
    CommandOptions options = Options(std::move(arguments));
    options.environment["TERM"] = "xterm";
    options.environment["HOME"] = folder_;
    options.environment["XDG_STATE_HOME"] = Path("state");
    return options;
  }
  CommandResult Piped(std::vector<std::string> arguments, const std::string& lines) const {
    CommandOptions options = At(std::move(arguments));
    options.input = lines;
    return RunMoonring(options);
  }
};

TEST_F(Prompt, ShowsValuesAsksForMoreAndOutlivesErrors) {
  PromptTerminal at(At({"repl"}));
  ASSERT_TRUE(at.Shows("help() shows more, Ctrl-D leaves."));
  at.TypeLine("40 + 2");
  ASSERT_TRUE(at.ShowsLine("42"));
  at.TypeLine("_ + 1, 'a' .. 'b'");
  ASSERT_TRUE(at.ShowsLine("43"));
  ASSERT_TRUE(at.Shows("\"ab\"\r\n"));
  at.TypeLine("nil, 7, nil");
  ASSERT_TRUE(at.ShowsLine("nil"));
  ASSERT_TRUE(at.ShowsLine("7"));
  ASSERT_TRUE(at.ShowsLine("nil"));
  at.TypeLine("function outer(x)");
  ASSERT_TRUE(at.Shows(">> "));
  at.TypeLine("  return x.field");
  at.TypeLine("end");
  at.TypeLine("outer(nil)");
  ASSERT_TRUE(at.Shows("stdin:2: attempt to index local 'x' (a nil value)"));
  ASSERT_TRUE(at.Shows("stdin:2: in function 'outer'"));
  ASSERT_TRUE(at.Shows("stdin:1: in main chunk"));
  at.TypeLine("moonring.tensor({ 1, 2 }):sum():item()");
  ASSERT_TRUE(at.ShowsLine("3"));
  ASSERT_TRUE(at.Shows("> "));  // before the prompt appears, Ctrl-C discards typed input
  at.Type("half a line");
  ASSERT_TRUE(at.Shows("half a line"));
  at.Type(kCtrlC);
  ASSERT_TRUE(at.Shows("^C"));
  at.TypeLine("6 * 7");
  ASSERT_TRUE(at.ShowsLine("42"));
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0) << at.said();
}

TEST_F(Prompt, TabCompletesAndShowsTypes) {
  PromptTerminal at(At({"repl"}));
  at.Type(absl::StrCat("moonring.comm.me", kTab, " == nil", kEnter));  // completes the name
  ASSERT_TRUE(at.ShowsLine("false"));
  at.Type(absl::StrCat("moonring.comm.", kTab));
  ASSERT_TRUE(at.Shows("mesh(options?: moonring.MeshOptions): moonring.Mesh"));
  at.Type(kCtrlU);
  at.TypeLine("x = moonring.tensor { 1 }");
  at.Type(absl::StrCat("x:sum", kTab));
  ASSERT_TRUE(at.Shows("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"));
  at.Type(absl::StrCat("():item() + 1", kEnter));
  ASSERT_TRUE(at.ShowsLine("2"));
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0) << at.said();
}

TEST_F(Prompt, SessionsAtTheSameTimeKeepOneHistory) {
  {
    PromptTerminal one(At({"repl"})), other(At({"repl"}));
    ASSERT_TRUE(one.Shows("> "));
    ASSERT_TRUE(other.Shows("> "));
    one.TypeLine("'of the ' .. 'one'");
    ASSERT_TRUE(one.ShowsLine("\"of the one\""));
    other.TypeLine("'of the ' .. 'other'");
    ASSERT_TRUE(other.ShowsLine("\"of the other\""));
    one.TypeLine("'of the ' .. 'one again'");
    ASSERT_TRUE(one.ShowsLine("\"of the one again\""));
    for (PromptTerminal* each : {&one, &other}) {
      each->Type(kCtrlD);
      EXPECT_EQ(each->Wait(), 0);
    }
  }
  EXPECT_EQ(ReadText(Path("state/moonring/history")),
            "'of the ' .. 'one'\n'of the ' .. 'other'\n'of the ' .. 'one again'\n");
  PromptTerminal later(At({"repl"}));
  ASSERT_TRUE(later.Shows("> "));
  later.Type(absl::StrCat(kUp, kUp, kEnter));
  ASSERT_TRUE(later.ShowsLine("\"of the other\""));
  later.Type(kCtrlD);
  EXPECT_EQ(later.Wait(), 0);
  // Lines from a pipe are not stored in the history.
  EXPECT_THAT(Piped({"repl"}, "'piped'\n"), Succeeds());
  EXPECT_THAT(ReadText(Path("state/moonring/history")), Not(HasSubstr("piped")));
}

TEST_F(Prompt, CtrlCStopsWhatRuns) {
  PromptTerminal at(At({"repl"}));
  const std::vector<std::string> endless = {
      "while true do end",
      "while true do pcall(error) end",
      "local x = moonring.tensor({ 1 }) while true do x = x + 1 end",
      "coroutine.wrap(function() while true do end end)()",
      "('a'):rep(60):find(('a?'):rep(60) .. ('a'):rep(60))",
  };
  for (const std::string& line : endless) {
    at.TypeLine("print('be' .. 'gins') " + (line[0] == '(' ? "return " + line : line));
    ASSERT_TRUE(at.ShowsLine("begins")) << line;
    at.Type(kCtrlC);
    ASSERT_TRUE(at.Shows("interrupted")) << line;
    at.TypeLine("'lives' .. ' on'");
    ASSERT_TRUE(at.ShowsLine("\"lives on\"")) << line;
  }
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0) << at.said();
}

TEST_F(Prompt, CtrlCStopsATrainingRunWhichSavesNothingAndEndsNothing) {
  WriteModel("model");
  WriteConfig("max_steps: 1000000\nlogging_steps: 1\n");
  PromptTerminal at(At({"repl"}));
  at.TypeLine("run = moonring.run.open(moonring.config.load('config.yaml', {}))");
  at.TypeLine("for step in run:steps() do run:update(step) print('step ' .. 'made') end");
  ASSERT_TRUE(at.ShowsLine("step made"));
  at.Type(kCtrlC);
  ASSERT_TRUE(at.Shows("interrupted"));
  at.TypeLine("40 + 2");
  ASSERT_TRUE(at.ShowsLine("42"));
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0) << at.said();
}

TEST_F(Prompt, EachLineRunsOnAllRanks) {
  PromptTerminal at(At({"-n", "2", "repl"}));
  ASSERT_TRUE(at.Shows("2 ranks. help()"));
  at.TypeLine("mesh = moonring.comm.mesh { sp = 2 }");
  at.TypeLine("mesh:sum(mesh:rank() + 1)");
  ASSERT_TRUE(at.ShowsLine("3"));
  at.TypeLine("if mesh:rank() == 1 then error('of ' .. 'one') end");
  ASSERT_TRUE(at.Shows("[rank 1] stdin:1: of one"));
  at.TypeLine("mesh:sum(2)");  // the mesh still works
  ASSERT_TRUE(at.ShowsLine("4"));
  at.TypeLine("error('of ' .. 'all')");
  ASSERT_TRUE(at.Shows("stdin:1: of all"));
  at.TypeLine("print('be' .. 'gins') while true do end");
  ASSERT_TRUE(at.ShowsLine("begins"));
  ASSERT_TRUE(at.ShowsLine("begins"));
  at.Type(kCtrlC);
  ASSERT_TRUE(at.Shows("interrupted"));
  at.TypeLine("mesh:sum(3)");  // both ranks were stopped
  ASSERT_TRUE(at.ShowsLine("6"));
  EXPECT_THAT(at.said(), Not(HasSubstr("[rank 1] stdin:1: of all")));
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0) << at.said();
}

TEST_F(Prompt, DifferentCallsAreAnErrorOfTheLine) {
  PromptTerminal at(At({"-n", "2", "repl"}));
  at.TypeLine("mesh = moonring.comm.mesh { sp = 2 }");
  at.TypeLine("if mesh:rank() == 0 then mesh:sum(1) else mesh:max(1) end");
  ASSERT_TRUE(at.Shows("rank 0 called mesh:sum (stdin:1), rank 1 called mesh:max (stdin:1)"));
  at.TypeLine("mesh:sum_sp(moonring.ones(mesh:rank() == 0 and 10 or 1000))");
  ASSERT_TRUE(at.Shows("rank 0 called mesh:sum_sp of fp32 [10]"));
  at.TypeLine("mesh:sum(20)");  // the mesh still works
  ASSERT_TRUE(at.ShowsLine("40"));
  // Calls that never meet break the mesh, not the prompt.
  at.TypeLine("if mesh:rank() == 0 then mesh:same_sp(1) else mesh:sum(1) end");
  ASSERT_TRUE(at.Shows("rank 0 called mesh:same_sp (stdin:1) on group 'sp'"));
  at.TypeLine("mesh = moonring.comm.mesh {}");
  at.TypeLine("mesh:sum(21)");
  ASSERT_TRUE(at.ShowsLine("42"));
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0) << at.said();
}

TEST_F(Prompt, ARankThatWaitsForNothingIsReported) {
  PromptTerminal at(At({"-n", "2", "repl"}));
  at.TypeLine("mesh = moonring.comm.mesh { sp = 2 }");
  at.TypeLine("if mesh:rank() == 1 then error('of ' .. 'one') end mesh:barrier()");
  ASSERT_TRUE(at.Shows("rank 1 has ended this line"));
  ASSERT_TRUE(at.Shows("[rank 1] stdin:1: of one"));
  at.TypeLine("if mesh:rank() == 0 then moonring.comm.mesh {} end");
  ASSERT_TRUE(at.Shows("rank 1 has ended this line"));
  at.TypeLine("mesh = moonring.comm.mesh {}");
  at.TypeLine("mesh:sum(1), mesh:sp_size()");
  ASSERT_TRUE(at.ShowsLine("2"));
  // Ctrl-C during a collective that the other rank never joins.
  at.TypeLine(
      "print('be' .. 'gins') if mesh:rank() == 1 then while true do end end mesh:barrier()");
  ASSERT_TRUE(at.ShowsLine("begins"));
  ASSERT_TRUE(at.ShowsLine("begins"));
  at.Type(kCtrlC);
  ASSERT_TRUE(at.Shows("rank 1 has ended this line"));
  ASSERT_TRUE(at.Shows("[rank 1] interrupted"));
  at.TypeLine("40 + 2");
  ASSERT_TRUE(at.ShowsLine("42"));
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0) << at.said();
}

TEST_F(Prompt, CtrlDWhileALineRunsLeavesAfterIt) {
  PromptTerminal at(At({"repl"}));
  at.TypeLine("print('be' .. 'gins') local t = os.clock() while os.clock() - t < 0.3 do end");
  ASSERT_TRUE(at.ShowsLine("begins"));
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0) << at.said();
}

TEST_F(Prompt, OpensAModel) {
  WriteModel("model");
  const CommandResult result =
      Piped({"repl", "model"},
            "#tokenizer:encode('the north wind') > 0\nmodel:parameters():size() > 5\n");
  EXPECT_THAT(result, Succeeds());
  EXPECT_EQ(result.out, "true\ntrue\n");
  EXPECT_THAT(result.err, HasSubstr("model: Model "));
  EXPECT_THAT(Piped({"repl", "nothing"}, ""), FailsWith(2, HasSubstr("nothing")));
}

TEST_F(Prompt, ReadsLinesOfAPipe) {
  const CommandResult result = Piped(
      {"repl"}, "for i = 1, 2 do\nprint(i)\nend\nerror 'no'\n'after'\nhelp(moonring.comm.mesh)\n(");
  EXPECT_THAT(result, Succeeds());
  EXPECT_THAT(result.out, AllOf(HasSubstr("1\n2\n\"after\"\nmoonring.comm.mesh(options?: "),
                                Not(HasSubstr("> "))));
  EXPECT_EQ(result.err, "stdin:1: no\nstdin:1: unexpected symbol near '<eof>'\n");
  EXPECT_EQ(Piped({"-n", "2", "repl"}, "moonring.comm.mesh { sp = 2 }:sum(1)\n").out, "2\n");
}

TEST_F(Prompt, RanksOfAnotherLauncherHaveNone) {
  CommandOptions options = At({"repl"});
  options.environment["RANK"] = "0";
  options.environment["WORLD_SIZE"] = "2";
  options.environment["MASTER_ADDR"] = "127.0.0.1";
  options.environment["MASTER_PORT"] = "29500";
  EXPECT_THAT(RunMoonring(options), FailsWith(2, HasSubstr("moonring -n RANKS repl")));
}

TEST_F(Prompt, IsConfinedUnderTheSandbox) {
  Write("outside.lua", "");
  const CommandResult result = Piped({"--sandbox", "--sandbox-instructions", "300000000", "repl"},
                                     "io.open\nload('x = 1', 'x', 'b')\n"
                                     "require 'moonring.prompt.chunk'\nmoonring.prompt\n"
                                     "y = 40\ny + 2\nhelp 'Tensor:keep'\n"
                                     "while true do pcall(error) end\n'never'\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("42\n"), HasSubstr("Moves the tensor out of the"),
                                Not(HasSubstr("never"))));
  EXPECT_THAT(result.err, AllOf(HasSubstr("--sandbox: there is no io"),
                                HasSubstr("require 'moonring.prompt.chunk': only"),
                                HasSubstr("--sandbox-instructions: the script took more")));
  PromptTerminal at(At({"--sandbox", "repl"}));
  at.TypeLine("40 + 2");
  ASSERT_TRUE(at.ShowsLine("42"));
  at.Type(kCtrlD);
  EXPECT_EQ(at.Wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(Path("state")));
}

TEST_F(Prompt, RunsCodeOfTheCommandLine) {
  CommandResult result = Run({"-e", "print(moonring.version ~= nil, arg[1], ...)", "a", "b"});
  EXPECT_THAT(result, Succeeds());
  EXPECT_EQ(result.out, "true\ta\ta\tb\n");
  EXPECT_THAT(Run({"-e", "x y"}), FailsWith(2, HasSubstr("(command line):1: '=' expected")));
  EXPECT_THAT(Run({"-e", "error 'no'"}), FailsWith(1, "(command line):1: no"));
  EXPECT_THAT(Run({"-e", "moonring.config.fail 'no'"}), FailsWith(2, "no"));
  EXPECT_THAT(Run({"-e"}), FailsWith(2, "-e needs a value"));
  EXPECT_EQ(Run({"-e", "os.exit(7)"}).exit_code, 7);
  EXPECT_EQ(Run({"--sandbox", "-e", "os.exit(7)"}).exit_code, 2);
  EXPECT_EQ(Run({"-n", "2", "-e",
                 "local m = moonring.comm.mesh {} local s = m:sum(1) "
                 "if m:rank() == 0 then print(s) end"})
                .out,
            "2\n");
}

TEST_F(Prompt, RunsAScriptOnStdin) {
  CommandResult result = Piped({"-", "a"}, "#!/usr/bin/env moonring -\nprint(arg[0], ...)\n");
  EXPECT_THAT(result, Succeeds());
  EXPECT_EQ(result.out, "-\ta\n");
  EXPECT_THAT(Piped({"-"}, "x y"), FailsWith(2, HasSubstr("stdin:1: '=' expected")));
  EXPECT_THAT(Piped({"-"}, "\nerror 'no'"), FailsWith(1, "stdin:2: no"));
  EXPECT_EQ(Piped({"--sandbox", "-"}, "io.open 'x'").exit_code, 2);
  // The ranks run the same script from stdin, started by -n and by the script itself.
  const std::string lines =
      "local m = require('moonring').comm.mesh {} local s = m:sum(1) "
      "if m:rank() == 0 then print(s, io.read()) end";
  EXPECT_EQ(Piped({"-n", "2", "-"}, lines).out, "2\tnil\n");
  EXPECT_EQ(Piped({"-"}, "require('moonring').launch(2) " + lines).out, "2\tnil\n");
}

}  // namespace
}  // namespace moonring::testing
