// The host as a process: its command line, exit codes, ranks, and the sandbox.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace moonring::lua {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Ended {
  int code = -1;
  std::string output;  // stdout and stderr
};

std::string Binary() { return absl::StrCat(std::getenv("TEST_SRCDIR"), "/moonring/moonring"); }

// Runs a shell command in a separate folder. Its environment lacks the variables of Bazel's test,
// except the one that locates the program's own files.
Ended InShell(const std::string& line) {
  const std::string folder = ::testing::TempDir() + "/host";
  std::filesystem::create_directories(folder);
  const std::string command = absl::StrCat(
      "cd ", folder,
      " && env -i PATH=\"$PATH\" OMP_NUM_THREADS=1 RUNFILES_DIR=", std::getenv("TEST_SRCDIR"),
      " bash -c '", absl::StrReplaceAll(line, {{"'", R"('\'')"}}), "' 2>&1 </dev/null");
  FILE* pipe = popen(command.c_str(), "r");
  Ended ended;
  char buffer[4096];
  for (size_t size; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    ended.output.append(buffer, size);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

// Runs `moonring WORDS`; `variable` ("NAME=VALUE") is added to its environment.
Ended Moonring(const std::string& words, const std::string& variable = "") {
  return InShell(absl::StrCat(variable, " ", Binary(), " ", words));
}

std::string Script(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(Host, RefusesWhatItDoesNotKnowWithTheNearest) {
  Ended ended = Moonring("trian x.yaml");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(
      ended.output,
      StartsWith("moonring: no file and no command 'trian' (did you mean 'train'?); commands: "));
  ended = Moonring("--sandbx script.lua");
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.output, "moonring: unknown option '--sandbx' (did you mean '--sandbox'?)\n");
  ended = Moonring("-n 0 script.lua");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr("expected a number of ranks from 1, got '0'"));
}

TEST(Host, RunsACommandAndAScript) {
  EXPECT_THAT(Moonring("version").output, StartsWith("moonring "));
  const Ended ended = Moonring(Script("words.lua", "print(#arg, arg[1], (...))") + " key=value");
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.output, "1\tkey=value\tkey=value\n");
}

TEST(Host, EndsWithTheCodeOfTheScriptsError) {
  Ended ended = Moonring(
      Script("usage.lua", "require 'moonring'.flags { model = require 'moonring'.required }"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, StartsWith("moonring: model= is missing"));
  ended = Moonring(Script(
      "late.lua", "local m = require 'moonring' m.system.started() m.system.read 'nothing'"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("late.lua:1: "),
                    HasSubstr("moonring.system.read: NOT_FOUND: cannot read nothing")));
}

TEST(Host, StartsRanksThatFindOneAnother) {
  const Ended ended = Moonring("-n 2 " + Script("sum.lua", R"lua(
    local mesh = require "moonring".comm.mesh { sp = 2, deadline = 600 }
    local sum = mesh:sum(mesh:rank() + 1)
    if mesh:rank() == 0 then print(sum, mesh) end
  )lua"));
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(ended.output, "3\tMesh dp=1 x sp=2, rank 0 (dp 0, sp 0)\n");
}

TEST(Host, ARankThatFailsEndsTheOthersAndIsNamedFirst) {
  const Ended ended = Moonring("-n 2 " + Script("fail.lua", R"lua(
    local mesh = require "moonring".comm.mesh { deadline = 600 }
    if mesh:rank() == 1 then error("mine", 0) end
    mesh:barrier()
  )lua"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("moonring: rank 1 of 2: mine\n"));
  const size_t victim = ended.output.find("rank 0 of 2: ");
  EXPECT_TRUE(victim == std::string::npos || victim > ended.output.find("rank 1 of 2: mine"))
      << ended.output;
}

TEST(Host, ARewardThatFailsOnOneRankIsReportedOnAll) {
  Script("host/oh.lua",
         "return { x = { each = function(row) assert(row.completion == 'c', 'oh') "
         "return 1 end } }");
  const std::string score = R"lua(
    local moonring = require "moonring"
    local mesh = moonring.comm.mesh { deadline = 600 }
    moonring.system.started()
    local opened = moonring.rewards.open "oh.lua"
    local scores, why = opened:score { prompts = { "p" }, rows = { 10 + mesh:rank() },
      completions = { mesh:rank() == 1 and "bad" or "c" } }
    assert((scores == nil) == (mesh:rank() == 1))
  )lua";
  Ended ended = Moonring(
      "-n 2 " +
      Script("told.lua", score + "moonring.rewards.raise_together(mesh, why) print 'not here'"));
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("rank 1: reward 'x' (oh.lua): row 11 of the data set ('p'), "
                                      "completion 1 of the batch: oh.lua:1: oh\n"));
  EXPECT_THAT(ended.output, Not(HasSubstr("not here")));
  // If the script catches the error, all ranks continue.
  ended = Moonring("-n 2 " + Script("caught.lua", score + R"lua(
    local ok, words = pcall(moonring.rewards.raise_together, mesh, why)
    assert(not ok and words:find("rank 1: reward 'x'", 1, true), words)
    local alone = moonring.comm.mesh { alone = true }
    local sum = mesh:sum(alone:sum(1))
    if mesh:rank() == 0 then print(sum, alone:size()) end
  )lua"));
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(ended.output, "2\t1\n");
}

// No code is loaded from the working directory, which may belong to anybody: a clone, an unpacked
// archive, /tmp.
TEST(Host, TheWorkingDirectoryIsNoProgram) {
  const std::string pwned = "io.open('pwned', 'w'):write('x') return {}";
  const std::string folder = ::testing::TempDir() + "/host";
  for (const char* name : {"lua/moonring/init.lua", "lua/moonring/sandbox/init.lua",
                           "scripts/version.lua", "moonring/init.lua", "moonring.lua"}) {
    const std::string path = Script(absl::StrCat("host/", name), "");
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    Script(absl::StrCat("host/", name), pwned);
  }
  std::filesystem::create_directories(folder + "/bin");
  std::filesystem::create_symlink(Binary(), folder + "/bin/moonring");
  // Bazel's variables, which locate the program's own files, are not set.
  for (const std::string& how :
       {"PATH=" + folder + "/bin:$PATH moonring", "exec -a ./moonring " + Binary(),
        std::string("cd bin; exec -a ../moonring ./moonring")}) {
    for (const char* words : {"version", "--sandbox version"}) {
      const Ended ended = InShell(absl::StrCat("unset RUNFILES_DIR; ", how, " ", words));
      EXPECT_FALSE(std::filesystem::exists(folder + "/pwned")) << how << ": " << ended.output;
    }
  }
  EXPECT_THAT(InShell("PATH=bin:$PATH moonring version").output, StartsWith("moonring "));
  EXPECT_FALSE(std::filesystem::exists(folder + "/pwned"));
  for (const char* name : {"lua", "scripts", "moonring", "moonring.lua", "bin"})
    std::filesystem::remove_all(folder + "/" + name);
}

TEST(Host, ACommandIsNoFileOfThatName) {
  Script("host/version", "print 'mine'");
  Script("host/mine", "print 'mine'");
  Script("host/version.lua", "print 'by its ending'");
  EXPECT_THAT(Moonring("version").output, StartsWith("moonring "));
  EXPECT_EQ(Moonring("./version").output, "mine\n");
  EXPECT_EQ(Moonring("version.lua").output, "by its ending\n");
  Ended ended = Moonring("mine");
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.output,
            "moonring: no command 'mine'; the file of that name here is run by its path: "
            "moonring ./mine\n");
  ended = Moonring("gone.lua");
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.output, "moonring: no file 'gone.lua'\n");
  for (const char* name : {"version", "mine", "version.lua"})
    std::filesystem::remove(::testing::TempDir() + "/host/" + name);
}

TEST(Host, CodeOfTheCommandLineIsRunAsItIs) {
  EXPECT_EQ(Moonring("-e \"(print)(1)\"").output, "1\n");
  EXPECT_EQ(Moonring("-e \"-- a remark\"").output, "");
  EXPECT_EQ(Moonring("-e \"return moonring.version\" a").code, 0);
  const Ended ended = Moonring("-e \".x = 1\"");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr("unexpected symbol near"));
}

// Control characters are escaped in messages, which may quote an untrusted file, model or hub, and
// in the output of a sandboxed script.
TEST(Host, SendsNoCodesOfOthersToTheTerminal) {
  const std::string error = Script("escape.lua", "error('\\27]0;x\\7', 0)");
  for (const char* how : {"-n 2 ", "--sandbox "})
    EXPECT_THAT(Moonring(how + error).output, StartsWith("moonring: \\x1b]0;x\\x07\n")) << how;
  const std::string print = Script("print.lua", "print('\\27[8m', 1)");
  EXPECT_EQ(Moonring(print).output, "\x1b[8m\t1\n");  // a user's own script: unchanged
  EXPECT_EQ(Moonring("--sandbox " + print).output, "\\x1b[8m\t1\n");
  const Ended ranks = Moonring("-n 2 " + Script("rank.lua", R"lua(
    if os.getenv "RANK" == "1" then io.stderr:write("\27[2J\n") end
  )lua"));
  EXPECT_EQ(ranks.output, "[rank 1] \\x1b[2J\n");
}

TEST(Host, ConfinesAUsersScript) {
  const std::string script =
      Script("confined.lua", "print(rawget(_G, 'io')) os.execute 'touch escaped'");
  EXPECT_EQ(Moonring(script).code,
            0);  // io and os are available without --sandbox
  EXPECT_TRUE(std::filesystem::remove(::testing::TempDir() + "/host/escaped"));
  const Ended ended = Moonring("--sandbox " + script);
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("nil\n"),
                                  HasSubstr("moonring: --sandbox: there is no os.execute\n")));
  EXPECT_FALSE(std::filesystem::exists(::testing::TempDir() + "/host/escaped"));
}

TEST(Host, ConfinesEveryRank) {
  const Ended ended = Moonring(
      "-n 2 --sandbox " + Script("ranks.lua",
                                 "local mesh = require 'moonring'.comm.mesh { deadline = 600 } "
                                 "local sum = mesh:sum(rawget(_G, 'io') and 100 or 1) if "
                                 "mesh:rank() == 0 then print(sum) end"));
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(ended.output, "2\n");
}

TEST(Host, ConfinesFilesToRoots) {
  const std::string read = Script("read.lua", "require 'moonring'.safetensors.read(arg[1])");
  Ended ended = Moonring("--sandbox " + read + " /etc/passwd");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(
      ended.output,
      HasSubstr("PERMISSION_DENIED: --sandbox: /etc/passwd is outside of the roots (" +
                std::filesystem::weakly_canonical(::testing::TempDir() + "/host").string() + ")"));
  EXPECT_THAT(Moonring("--sandbox " + read + " none.safetensors").output,
              HasSubstr("NOT_FOUND"));  // the current folder is the sandbox's root
  EXPECT_THAT(Moonring("--sandbox-root / " + read + " /etc/passwd").output,
              ::testing::Not(HasSubstr("PERMISSION_DENIED")));
  EXPECT_THAT(Moonring("--sandbox-root /usr --sandbox-root /bin " + read + " /etc/passwd").output,
              HasSubstr("outside of the roots (/usr, "));
  ended = Moonring("--sandbox-root /nowhere " + read);
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.output, "moonring: --sandbox-root: no folder '/nowhere'\n");
  // The sandbox also applies to commands: a configuration cannot access other folders.
  ended = Moonring("--sandbox inspect /etc");
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr("/etc is outside of the roots"));
}

TEST(Host, LimitsAScript) {
  const std::string loop = Script("loop.lua", "while true do pcall(error) end"),
                    grow = Script("grow.lua", "local s = ('x'):rep(1e9)");
  Ended ended = Moonring("--sandbox-instructions 100000 " + loop);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output, HasSubstr("--sandbox-instructions: the script took more than 100000"));
  ended = Moonring("--sandbox-memory 64MiB " + grow);
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(
      ended.output,
      HasSubstr("out of memory: no more for scripts, as --sandbox-memory allows 67108864 bytes"));
  EXPECT_EQ(Moonring("--sandbox-memory 64 " + grow).code, 1);  // too little memory for a Lua state
  EXPECT_EQ(Moonring("--sandbox-memory lots " + grow).output,
            "moonring: --sandbox-memory: expected a size such as 2GiB or 500MB, got 'lots'\n");
  EXPECT_EQ(Moonring("--sandbox-instructions 0 " + grow).output,
            "moonring: --sandbox-instructions: expected a number from 1, got '0'\n");
}

// Whether this kernel enforces a sandbox's roots; if not, the sandbox prints a message.
bool HasLandlock() {
  return Moonring("--sandbox -e 'return 1'").output.find("the kernel does not enforce") ==
         std::string::npos;
}

TEST(Host, SaysThatTheKernelDoesNotHoldTheRoots) {
  const std::string by_env = "-e 'print(1)'";
  const auto sandboxed = [](const std::string& setting, const std::string& words) {
    return Moonring(absl::StrCat("--sandbox ", words), absl::StrCat("MOONRING_LANDLOCK=", setting));
  };
  Ended ended = sandboxed("off", by_env);
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.output,
              AllOf(StartsWith("moonring: --sandbox: MOONRING_LANDLOCK=off: the kernel does not "
                               "enforce the roots; "),
                    ::testing::EndsWith("\n1\n")));
  ended = sandboxed("of", by_env);
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.output,
            "moonring: MOONRING_LANDLOCK=of: the only value is 'off'; unset it to use Landlock\n");
}

// The sandbox counts LibTorch's memory in addition to a tensor's bytes, for results of one call and
// of many. A handle and the object that it represents take more than 200 bytes.
TEST(Host, CountsHandlesViewsAndGraphs) {
  const std::string of_one_call = Script("pieces.lua", R"lua(
    local x = require "moonring".ops.ones(1):expand { 2 ^ 26 }
    for _, cut in ipairs { "unbind", "split", "chunk" } do
      print(cut, pcall(x[cut], x, cut == "split" and 1 or cut == "chunk" and 2 ^ 26 or nil))
    end
  )lua");
  Ended ended = Moonring("--sandbox-memory 64MB " + of_one_call);
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("unbind\tfalse"), HasSubstr("split\tfalse"),
                                  HasSubstr("chunk\tfalse"), HasSubstr("out of memory")));
  const std::string of_many = Script("many.lua", R"lua(
    local ops = require "moonring".ops
    for name, more in pairs {
      views = function(x, all, i) all[i] = x:view(2, 2) return x end,
      graph = function(x) return x * 1 end,
      in_place = function(x) return x:add_(1) end,
    } do
      local count = 0
      local done, why = pcall(function()
        local x, all = ops.ones(4):requires_grad_() * 1, {}
        for i = 1, 2e6 do
          x, count = more(x, all, i), i
        end
      end)
      collectgarbage()
      print(name, done, count > 1000 and count < 24e6 / 200, tostring(why):match "memory")
    end
  )lua");
  ended = Moonring("--sandbox-memory 24MB " + of_many);
  EXPECT_EQ(ended.code, 0) << ended.output;
  for (const char* name : {"views", "graph", "in_place"})
    EXPECT_THAT(ended.output, HasSubstr(absl::StrCat(name, "\tfalse\ttrue\tmemory\n")));
}

// Writes a safetensors file with one number, x.
void WriteNumber(const std::filesystem::path& path, float number) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const uint64_t size = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header;
  file.write(reinterpret_cast<const char*>(&number), sizeof number);
}

// While a sandboxed script opens a file in a folder 20,000 times, another process repeatedly swaps
// the folder with a link to a folder outside. Without the kernel's enforcement, about 300 reads
// would be outside.
TEST(Host, ReadsNothingOutsideWhileLinksChange) {
  if (!HasLandlock()) GTEST_SKIP() << "this kernel has no Landlock";
  namespace fs = std::filesystem;
  const fs::path base = fs::path(::testing::TempDir()) / "race", root = base / "root";
  fs::remove_all(base);
  fs::create_directories(root / "a");
  fs::create_directories(base / "outside");
  WriteNumber(root / "a" / "file", 1);
  WriteNumber(base / "outside" / "file", 2);
  fs::create_directory_symlink(base / "outside", root / "b");
  const std::string script = Script("race.lua", R"lua(
    local moonring = require "moonring"
    local counts = { inside = 0, outside = 0, refused = 0 }
    for i = 1, 20000 do
      local done, read = pcall(moonring.safetensors.read, arg[1])
      local what = not done and "refused" or read.x:item() == 1 and "inside" or "outside"
      counts[what] = counts[what] + 1
    end
    print(counts.inside > 0, counts.outside, counts.refused > 0)
  )lua");
  const pid_t swapper = fork();
  if (swapper == 0) {
    const std::string a = root / "a", b = root / "b";
    for (;;) renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
  }
  const Ended ended = Moonring(absl::StrCat("--sandbox-root ", root.string(), " ", script, " ",
                                            (root / "a" / "file").string()));
  kill(swapper, SIGKILL);
  waitpid(swapper, nullptr, 0);
  EXPECT_EQ(ended.output, "true\t0\ttrue\n");
}

}  // namespace
}  // namespace moonring::lua
