// The host as a process: its command line, exit codes, ranks, and the sandbox.

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
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

// `moonring WORDS` in an empty folder of its own, without the environment of Bazel's test.
Ended Moonring(const std::string& words) {
  const std::string binary = absl::StrCat(std::getenv("TEST_SRCDIR"), "/moonring/moonring");
  const std::string folder = ::testing::TempDir() + "/host";
  std::filesystem::create_directories(folder);
  const std::string command =
      absl::StrCat("cd ", folder, " && env -i PATH=\"$PATH\" OMP_NUM_THREADS=1 ", binary, " ",
                   words, " 2>&1 </dev/null");
  FILE* pipe = popen(command.c_str(), "r");
  Ended ended;
  char buffer[4096];
  for (size_t size; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    ended.output.append(buffer, size);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
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
  EXPECT_THAT(ended.output, HasSubstr("wanted a number of ranks from 1, got '0'"));
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

TEST(Host, ARewardThatFailsOnOneRankIsToldOfOnAll) {
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
  // Caught, all of them go on together.
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

TEST(Host, ConfinesAUsersScript) {
  const std::string script =
      Script("confined.lua", "print(rawget(_G, 'io')) os.execute 'touch escaped'");
  EXPECT_EQ(Moonring(script).code,
            0);  // prints io and runs touch: without the option a script may do all
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
              HasSubstr("NOT_FOUND"));  // the current folder is the root
  EXPECT_THAT(Moonring("--sandbox-root / " + read + " /etc/passwd").output,
              ::testing::Not(HasSubstr("PERMISSION_DENIED")));
  EXPECT_THAT(Moonring("--sandbox-root /usr --sandbox-root /bin " + read + " /etc/passwd").output,
              HasSubstr("outside of the roots (/usr, "));
  ended = Moonring("--sandbox-root /nowhere " + read);
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.output, "moonring: --sandbox-root: no folder '/nowhere'\n");
  // Commands too: a configuration leads nowhere else.
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
  EXPECT_EQ(Moonring("--sandbox-memory 64 " + grow).code, 1);  // too little for a state
  EXPECT_EQ(Moonring("--sandbox-memory lots " + grow).output,
            "moonring: --sandbox-memory: wanted a size such as 2GiB or 500MB, got 'lots'\n");
  EXPECT_EQ(Moonring("--sandbox-instructions 0 " + grow).output,
            "moonring: --sandbox-instructions: wanted a number from 1, got '0'\n");
}

}  // namespace
}  // namespace moonring::lua
