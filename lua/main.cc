// The host: moonring [-n RANKS] [--device cpu|cuda] [--sandbox] SCRIPT.lua|COMMAND [arguments...]
//
// A word that is not a file is a script of that name in scripts/: a command is a script. With RANK and WORLD_SIZE in the
// environment this process is one rank; with -n it starts the ranks and waits. Exit codes: 0 done; 2 what could be known
// before the first step; 1 what came later; 128+n ended by signal n.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/memory_account.h"
#include "comm/nearest_name.h"
#include "comm/rendezvous.h"
#include "lua/assets.h"
#include "lua/guard.h"
#include "lua/launcher.h"
#include "lua/vm.h"

namespace moonring::lua {
namespace {

constexpr int kUsage = 2;

struct CommandLine {
  int ranks = 0;
  std::string device = "auto";
  bool sandbox = false;
  std::string script;
  bool says_nothing = false;  // neither a script nor --help: usage, and an error
  std::vector<std::string> arguments;
};

absl::StatusOr<CommandLine> Parse(int argc, char** argv) {
  CommandLine line;
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string option = argv[i];
    if (option == "-h" || option == "--help") return (line.script = "help", line);
    if (option == "--version") return (line.script = "version", line);
    if (option == "--sandbox") {  // Moonring's own scripts, the commands, are not confined by it
      line.sandbox = true;
      continue;
    }
    if (option != "-n" && option != "--device") {
      return absl::InvalidArgumentError(absl::StrCat("unknown option '", option, "'", comm::DidYouMean(option, {"-n", "--device", "--sandbox", "--help", "--version"})));
    }
    if (++i == argc) return absl::InvalidArgumentError(absl::StrCat(option, " needs a value"));
    if (option == "-n") {
      if (!absl::SimpleAtoi(argv[i], &line.ranks) || line.ranks < 1) {
        return absl::InvalidArgumentError(absl::StrCat("-n: wanted a number of ranks from 1, got '", argv[i], "'"));
      }
    } else {
      line.device = argv[i];
      if (line.device != "cpu" && line.device != "cuda") return absl::InvalidArgumentError(absl::StrCat("--device: wanted cpu or cuda, got '", argv[i], "'"));
    }
  }
  if (i == argc) return (line.script = "help", line.says_nothing = true, line);
  line.script = argv[i++];
  line.arguments.assign(argv + i, argv + argc);
  return line;
}

// Where the ranks of one machine share its cores, each takes its part.
void ShareCores() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  int local = 1;
  if (const char* text = std::getenv("LOCAL_WORLD_SIZE")) (void)absl::SimpleAtoi(text, &local);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  at::set_num_threads(std::max(1, cores / std::max(1, local)));
}

int Fail(int code, const std::string& message) {
  ReportError(message);
  return code;
}

int Run(int argc, char** argv) {
  const absl::StatusOr<Assets> assets = Assets::Find(argv[0]);
  if (!assets.ok()) return Fail(1, std::string(assets.status().message()));
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY")) {  // under `bazel run`
    if (chdir(folder) != 0) return Fail(kUsage, absl::StrCat("cannot change to ", folder));
    unsetenv("BUILD_WORKING_DIRECTORY");
  }
  absl::StatusOr<CommandLine> line = Parse(argc, argv);
  if (!line.ok()) return Fail(kUsage, std::string(line.status().message()));

  const std::vector<std::string> command(argv, argv + argc);
  std::string path = line->script;
  std::string chunk = "@" + path;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    const std::vector<std::string> known = assets->scripts();
    if (std::find(known.begin(), known.end(), path) == known.end()) {
      return Fail(kUsage, absl::StrCat("no file and no command '", path, "'", comm::DidYouMean(path, known), "; commands: ", absl::StrJoin(known, ", ")));
    }
    chunk = absl::StrCat(kOwnChunk, "scripts/", path);
    path = assets->script(path);
  }
  if (line->ranks > 1) {
    const auto rendezvous = comm::RendezvousFromEnvironment();
    if (!rendezvous.ok()) return Fail(kUsage, std::string(rendezvous.status().message()));
    if (!rendezvous->has_value()) return LaunchRanks(line->ranks, command);
  }

  ShareCores();
  comm::InstallMemoryAccount();
  Vm vm(Host{.assets = *assets, .command = command, .device = line->device, .ranks = line->ranks, .sandbox = line->sandbox});
  const ScriptError error = vm.Run(path, chunk, line->arguments);
  std::fflush(stdout);  // what the script said comes before why it ended
  if (error.exit_code != 0) ReportError(error.message);
  return error.exit_code == 0 && line->says_nothing ? kUsage : error.exit_code;
}

}  // namespace
}  // namespace moonring::lua

int main(int argc, char** argv) {
  // Not by return: LibTorch's threads and process groups have no orderly end of their own once a peer is gone.
  const int code = moonring::lua::Run(argc, argv);
  std::fflush(nullptr);
  std::_Exit(code);
}
