// The program `moonring`:
//
//   moonring [-n RANKS] [--device cpu|cuda] [--sandbox] SCRIPT.lua|COMMAND [arguments...]
//   moonring [...] -e CODE [arguments...]
//   moonring [...] - [arguments...]            the script is on stdin
//
// An option's value may also follow "=": --device=cpu.
//
//   --sandbox                  The script has no io, os.execute, ffi, environment or bytecode
//                              (lua/moonring/sandbox/init.lua). No file outside of the roots is
//                              read or written, by scripts or commands, by whatever path; the
//                              kernel enforces that too (lua/host/confined_process.h).
//   --sandbox-root DIR         a root; may be given several times; default: the current folder
//   --sandbox-instructions N   limit on Lua instructions
//   --sandbox-memory SIZE      limit on memory used after the script begins: 2GiB, 500MB
//
// The last three imply --sandbox.
//
// A word with a '/' or ending in .lua is a file's path. Any other is a command, a script of that
// name in scripts/, whatever files are in the working directory. With RANK and WORLD_SIZE in the
// environment this process is one rank; with -n it starts the ranks and waits for them. Exit codes:
// 0 success; 2 an error that could be detected before the first step; 1 a later error; 128+n ended
// by signal n.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/files/confinement.h"
#include "base/memory/heap.h"
#include "base/memory/memory_account.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/text/nearest_name.h"
#include "base/text/visible_text.h"
#include "base/threads/spin_control.h"
#include "base/trace/last_operators.h"
#include "comm/store/rendezvous.h"
#include "kernels/choice.h"
#include "lua/binding/guard.h"
#include "lua/bindings/libraries.h"
#include "lua/host/confined_process.h"
#include "lua/host/launcher.h"
#include "lua/host/open_prompt.h"
#include "lua/host/preemption.h"
#include "lua/host/process_start.h"
#include "lua/host/standard_input.h"
#include "lua/host/unconfined_exec.h"
#include "lua/vm/assets.h"
#include "lua/vm/vm.h"
#include "trainer/optimizer/device_settings.h"

namespace moonring::lua {
namespace {

constexpr int kUsage = 2;

struct CommandLine {
  int ranks = 0;
  std::string device = "auto";
  bool sandbox = false;
  base::ConfinementOptions confinement;
  int64_t instructions = 0;
  std::string script;  // "-e": `code`; "-": read from stdin
  std::string code;
  bool says_nothing = false;  // no script and no --help: prints the usage, exit code of an error
  std::vector<std::string> arguments;
};

// Parses "2GiB", "500MB", "1000000".
absl::StatusOr<int64_t> ParseBytes(absl::string_view option, const std::string& text) {
  static constexpr std::pair<absl::string_view, double> kUnits[] = {
      {"KIB", 0x1p10}, {"MIB", 0x1p20}, {"GIB", 0x1p30}, {"TIB", 0x1p40}, {"KB", 1e3},
      {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"B", 1},        {"", 1}};
  const std::string upper = absl::AsciiStrToUpper(text);
  for (const auto& [unit, bytes] : kUnits) {
    double number = 0;
    if (!absl::EndsWith(upper, unit)) continue;
    if (absl::SimpleAtod(absl::StripAsciiWhitespace(absl::StripSuffix(upper, unit)), &number) &&
        number >= 1 && number * bytes < 0x1p62) {
      return static_cast<int64_t>(number * bytes);
    }
    break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": expected a size such as 2GiB or 500MB, got '", text, "'"));
}

absl::Status ParseLimit(const std::string& option, const std::string& text, CommandLine& line) {
  line.sandbox = true;
  if (option == "--sandbox-root") {
    line.confinement.roots.push_back(text);
  } else if (option == "--sandbox-memory") {
    ASSIGN_OR_RETURN(line.confinement.memory, ParseBytes(option, text));
  } else if (!absl::SimpleAtoi(text, &line.instructions) || line.instructions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sandbox-instructions: expected a number from 1, got '", text, "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> Parse(int argc, char** argv) {
  CommandLine line;
  int i = 1;
  for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; ++i) {
    const std::string given = argv[i];
    const size_t equals = given.find('=');
    const std::string option = given.substr(0, equals);
    const std::vector<std::string> alone = {"-e", "-h", "--help", "--version", "--sandbox"};
    if (equals != std::string::npos && absl::c_linear_search(alone, option))
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": expected no '=', got '", given, "'"));
    if (option == "-e") {
      if (++i == argc) return absl::InvalidArgumentError("-e needs a value");
      line.code = argv[i];
      return (line.script = option, line.arguments.assign(argv + i + 1, argv + argc), line);
    }
    if (option == "-h" || option == "--help") return (line.script = "help", line);
    if (option == "--version") return (line.script = "version", line);
    if (option == "--sandbox") {
      line.sandbox = true;
      continue;
    }
    const std::vector<std::string> with_value = {"-n", "--device", "--sandbox-root",
                                                 "--sandbox-instructions", "--sandbox-memory"};
    if (!absl::c_linear_search(with_value, option)) {
      std::vector<std::string> known = with_value;
      known.insert(known.end(), alone.begin(), alone.end());
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option '", option, "'", base::DidYouMean(option, known)));
    }
    if (equals == std::string::npos && ++i == argc)
      return absl::InvalidArgumentError(absl::StrCat(option, " needs a value"));
    const std::string value = equals == std::string::npos ? argv[i] : given.substr(equals + 1);
    if (option == "-n") {
      if (!absl::SimpleAtoi(value, &line.ranks) || line.ranks < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("-n: expected a number of ranks from 1, got '", value, "'"));
      }
    } else if (absl::StartsWith(option, "--sandbox-")) {
      RETURN_IF_ERROR(ParseLimit(option, value, line));
    } else {
      line.device = value;
      if (line.device != "cpu" && line.device != "cuda")
        return absl::InvalidArgumentError(
            absl::StrCat("--device: expected cpu or cuda, got '", value, "'"));
    }
  }
  if (i == argc) return (line.script = "help", line.says_nothing = true, line);
  line.script = argv[i++];
  line.arguments.assign(argv + i, argv + argc);
  return line;
}

// Sets LOCAL_WORLD_SIZE, as torchrun and Moonring's launcher do, if Slurm has started this rank:
// the ranks of a machine share its cores and its memory.
void CountSlurmsTasks() {
  const auto tasks =
      comm::TasksHere([](const char* name) -> const char* { return std::getenv(name); });
  if (tasks.has_value())
    setenv("LOCAL_WORLD_SIZE", std::to_string(*tasks).c_str(), /*overwrite=*/0);
}

// Divides the machine's cores among its ranks.
void ShareCores() {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  int local = 1;
  if (const char* text = std::getenv("LOCAL_WORLD_SIZE")) (void)absl::SimpleAtoi(text, &local);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  at::set_num_threads(std::max(1, cores / std::max(1, local)));
}

int Fail(int code, const std::string& message) {
  ReportError({.message = message});
  return code;
}

// Whether a word is the path of a script. Any other word is a command, even if the working
// directory has a file of that name, because others may control the working directory.
bool IsPath(absl::string_view word) {
  return absl::StrContains(word, '/') || absl::EndsWith(word, ".lua");
}

std::string NoCommand(const std::string& word, const std::vector<std::string>& known) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(word, ignored)) {
    return absl::StrCat("no command '", word, "'", base::DidYouMean(word, known),
                        "; the file of that name here is run by its path: moonring ./", word);
  }
  return absl::StrCat("no file and no command '", word, "'", base::DidYouMean(word, known),
                      "; commands: ", absl::StrJoin(known, ", "));
}

// A script that is not in a file: its text and its chunk name.
struct Text {
  std::string text, chunk;
};

absl::StatusOr<std::optional<Text>> TextOf(const CommandLine& line) {
  if (line.script == "-e")
    return Text{"local moonring = require 'moonring'; " + line.code, "=(command line)"};
  if (line.script != "-") return std::nullopt;
  ASSIGN_OR_RETURN(std::string text, TakeStandardInput());
  if (absl::StartsWith(text, "#")) text.insert(0, "--");  // a "#!" line
  return Text{std::move(text), "=stdin"};
}

// Sets the limits of --sandbox, and restricts which files the process can access.
absl::Status Confine(const CommandLine& line, const Assets& assets, const std::string& script,
                     Limits& limits) {
  base::ConfinementOptions options = line.confinement;
  if (options.roots.empty()) options.roots = {"."};
  options.heap = [] { return base::ReadHeap().used; };
  ASSIGN_OR_RETURN(limits.confinement, ConfineTo(std::move(options), assets));
  limits.instructions = line.instructions;
  const char* const rank = std::getenv("RANK");
  if (rank == nullptr) KeepUnconfinedThread();
  return GiveUpOtherFiles(OpenableUnder(*limits.confinement, assets, script),
                          rank == nullptr || absl::string_view(rank) == "0");
}

int Run(int argc, char** argv) {
  const absl::StatusOr<Assets> assets = Assets::Find();
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
  const absl::StatusOr<std::optional<Text>> text = TextOf(*line);
  if (!text.ok()) return Fail(kUsage, std::string(text.status().message()));
  bool prompt = false;
  if (!text->has_value() && !IsPath(path)) {
    const std::vector<std::string> known = assets->scripts();
    if (std::find(known.begin(), known.end(), path) == known.end())
      return Fail(kUsage, NoCommand(path, known));
    const std::vector<std::string>& words = line->arguments;
    if (std::any_of(words.begin(), words.end(),
                    [](const std::string& word) { return word == "--help" || word == "-h"; })) {
      line->arguments = {path};
      line->ranks = 0;
      path = "help";
    }
    OutliveStdout();
    prompt = path == "repl";
    chunk = absl::StrCat(kOwnChunk, "scripts/", path);
    path = assets->script(path);
  } else if (std::error_code ignored;
             !text->has_value() && !std::filesystem::exists(path, ignored)) {
    return Fail(kUsage, absl::StrCat("no file '", path, "'"));
  }
  const absl::StatusOr<bool> fused = kernels::FusedFrom(std::getenv("MOONRING_KERNELS"));
  if (!fused.ok()) return Fail(kUsage, std::string(fused.status().message()));
  if (const char* const text = std::getenv("MOONRING_LAST_OPERATORS")) {
    int count = 0;
    if (!absl::SimpleAtoi(text, &count) || count < 1)
      return Fail(kUsage, absl::StrCat("MOONRING_LAST_OPERATORS='", text,
                                       "': expected how many operators, at least 1"));
    base::KeepLastOperators(count);
  }
  int launched = TakeRanksToLaunch();
  if (line->ranks > 1) {
    const auto rendezvous = comm::RendezvousFromEnvironment();
    if (!rendezvous.ok()) return Fail(kUsage, std::string(rendezvous.status().message()));
    if (!rendezvous->has_value()) {
      const absl::Status possible = CheckRanks(line->ranks);
      if (!possible.ok()) return Fail(kUsage, std::string(possible.message()));
      launched = line->ranks;
    }
  }
  if (launched > 0) {
    if (const std::optional<int> code = LaunchRanks(launched, prompt)) return *code;
  }  // continues as a rank

  CountSlurmsTasks();
  ShareCores();
  // The thread of SpinControl reads how long other threads wait (/proc/self/task), so it must start
  // before file access is restricted.
  const std::shared_ptr<base::SpinControl> spin = base::SpinControl::Start(at::get_num_threads());
  base::InstallMemoryAccount();
  trainer::GrowSegments();
  trainer::MultiplyAsWritten();
  Host host{.assets = *assets,
            .libraries = AllLibraries(),
            .command = command,
            .device = line->device,
            .ranks = line->ranks,
            .sandbox = line->sandbox};
  host.report = [](const ScriptError& error) {
    std::fflush(stdout);  // the script's output comes before the error message
    ReportError(error.error, error.traceback);
    for (const std::string& call : base::LastOperators())
      std::fprintf(stderr, "operator: %s\n", base::VisibleText(call).c_str());
  };
  if (line->sandbox) {
    const absl::Status confined =
        Confine(*line, *assets, text->has_value() ? "" : path, host.limits);
    if (!confined.ok()) return Fail(kUsage, std::string(confined.message()));
  }
  if (prompt) {
    const absl::Status open = OpenPrompt(host);
    if (!open.ok()) return Fail(kUsage, std::string(open.message()));
  }
  const std::shared_ptr<base::Confinement> confinement = host.limits.confinement;
  std::unique_ptr<Vm> vm;
  if (const absl::Status made = base::TryTorch([&] { vm = std::make_unique<Vm>(std::move(host)); });
      !made.ok())
    return Fail(1, std::string(made.message()));
  if (confinement != nullptr) LimitProcess(*confinement);
  if (text->has_value()) {
    std::vector<std::string> words = {path};
    words.insert(words.end(), line->arguments.begin(), line->arguments.end());
    return vm->RunText((*text)->text, (*text)->chunk, words).exit_code;
  }
  const ScriptError error = vm->Run(path, chunk, line->arguments);
  return error.exit_code == 0 && line->says_nothing ? kUsage : error.exit_code;
}

}  // namespace
}  // namespace moonring::lua

int main(int argc, char** argv) {
  moonring::lua::OpenStandardStreams();
  moonring::lua::CatchFailedWrites();
  moonring::lua::CatchSaveWish();  // SIGUSR1 may arrive before a run is ready to save
  // _Exit instead of return: LibTorch's threads and process groups do not shut down cleanly after a
  // peer has ended.
  const int code = moonring::lua::Run(argc, argv);
  std::fflush(nullptr);
  std::_Exit(code);
}
