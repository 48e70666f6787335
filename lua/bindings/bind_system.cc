// Lua bindings of operating system functions: files, JSON, YAML, the clock, and the ranks of this
// run.

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <c10/util/hash.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files/confinement.h"
#include "base/files/input_file.h"
#include "base/files/inside_name.h"
#include "base/files/new_folder.h"
#include "base/files/output_file.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/text/json_nesting.h"
#include "base/text/nearest_name.h"
#include "base/text/visible_text.h"
#include "comm/store/rendezvous.h"
#include "lua/binding/guard.h"
#include "lua/binding/json.h"
#include "lua/binding/stack.h"
#include "lua/bindings/bindings.h"
#include "lua/bindings/yaml_text.h"
#include "lua/host/launcher.h"
#include "lua/host/preemption.h"
#include "lua/host/process_start.h"
#include "lua/vm/counted_search.h"
#include "lua/vm/version.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Raise(absl::Status status) { throw base::StatusError(std::move(status)); }

std::string ReadWhole(const std::string& path) {
  base::ThrowIfError(base::CheckWholeFile(path));
  std::error_code code;
  if (fs::is_directory(path, code))
    Raise(absl::InvalidArgumentError(absl::StrCat(path, " is a folder, expected a file")));
  std::ifstream file(path, std::ios::binary);
  if (!file) Raise(absl::NotFoundError(absl::StrCat("cannot read ", path)));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Reads at most `bytes` bytes from an offset; fewer at the file's end, "" beyond it.
std::string ReadPart(const std::string& path, int64_t offset, int64_t bytes) {
  if (offset < 0 || bytes < 0)
    Raise(absl::InvalidArgumentError(
        absl::StrCat("offset ", offset, ", bytes ", bytes, ": expected none below 0")));
  base::ThrowIfError(base::CheckInputFile(path));
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) Raise(absl::NotFoundError(absl::StrCat("cannot read ", path)));
  const auto size = static_cast<int64_t>(file.tellg());
  std::string part(std::clamp<int64_t>(size - offset, 0, bytes), '\0');
  file.seekg(offset);
  file.read(part.data(), static_cast<std::streamsize>(part.size()));
  part.resize(static_cast<size_t>(file.gcount()));
  return part;
}

// Identifies the process that started this one by the machine's name, the process id and the start
// time (proc(5), field 22 of stat). This identifier is never reused. If a launcher restarts its
// ranks, they get the same identifier as before.
std::string ParentId() {
  char host[HOST_NAME_MAX + 1] = {};
  gethostname(host, HOST_NAME_MAX);
  const pid_t parent = getppid();
  std::ifstream file(absl::StrCat("/proc/", parent, "/stat"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const size_t name_end = text.rfind(')');  // the name may contain any character
  std::vector<std::string> fields;
  if (name_end != std::string::npos)
    fields = absl::StrSplit(absl::string_view(text).substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStart = 22 - 3;  // field 3 is the first after the name
  return absl::StrCat(host, ":", parent, ":", kStart < fields.size() ? fields[kStart] : "unknown");
}

// Removes a file, or a folder with its contents. Does nothing if it does not exist.
void Remove(const std::string& path) {
  base::ThrowIfError(base::CheckWriting(path));
  std::error_code code;
  fs::remove_all(path, code);
  if (code)
    Raise(absl::UnavailableError(absl::StrCat("cannot remove ", path, ": ", code.message())));
}

std::vector<std::string> ListFolder(const std::string& path) {
  base::ThrowIfError(base::CheckReading(path));
  std::vector<std::string> names;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, code))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool Exists(const std::string& path) {
  base::ThrowIfError(base::CheckReading(path));
  std::error_code code;
  return fs::exists(path, code);
}

bool IsFolder(const std::string& path) {
  base::ThrowIfError(base::CheckReading(path));
  std::error_code code;
  return fs::is_directory(path, code);
}

// Upper bound of the memory that parsing a text needs: the given number of bytes for each separator
// (which begins a list element, or an object member with its map node) and each bracket. Separators
// inside strings are counted too.
int64_t ParsedBytes(const std::string& text, int64_t element, int64_t member, int64_t bracket) {
  int64_t bytes = static_cast<int64_t>(text.size());
  for (const char c : text) {
    if (c == ',' || c == '\n') bytes += element;
    if (c == ':') bytes += member;
    if (c == '[' || c == '{') bytes += bracket;
  }
  return bytes;
}

// Returns the parser's message without its prefix, which is "[json.exception.parse_error.101] parse
// error at line 1, column 2: " or "[json.exception.out_of_range.406] ".
absl::string_view Reason(const Json::exception& error) {
  absl::string_view text = error.what();
  if (const size_t end = text.find("] "); end != absl::string_view::npos)
    text.remove_prefix(end + 2);
  const size_t column = text.find("column ");
  const size_t colon = column == absl::string_view::npos ? column : text.find(": ", column);
  return colon == absl::string_view::npos ? text : text.substr(colon + 2);
}

Pushed DecodeJson(lua_State* L, std::string text, std::optional<std::string> where) {
  const std::string name = where.value_or("JSON");
  if (const absl::Status nesting = base::CheckJsonNesting(text); !nesting.ok())
    Raise(base::WithContext(nesting, name));
  base::ChargedBytes room;
  base::ThrowIfError(room.Add(ParsedBytes(text, 32, 112, 96), "parsed JSON"));
  Json value;
  try {
    value = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const size_t end = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + end, '\n');
    const size_t column = end -
                          (text.rfind('\n', end == 0 ? 0 : end - 1) == std::string::npos
                               ? 0
                               : text.rfind('\n', end == 0 ? 0 : end - 1) + 1) +
                          1;
    Raise(absl::InvalidArgumentError(
        absl::StrCat(name, ":", line, ":", column, ": not valid JSON: ", Reason(error))));
  } catch (const Json::out_of_range& error) {  // a number that no double can represent
    Raise(absl::InvalidArgumentError(absl::StrCat(name, ": not valid JSON: ", Reason(error))));
  }
  PushJson(L, value);
  return {1};
}

std::string EncodeJson(lua_State* L, std::optional<int> indent) {
  return ReadJson(L, 1).dump(indent.value_or(-1), ' ', false, Json::error_handler_t::replace);
}

int EncodeJsonCall(lua_State* L) {
  const std::optional<int> indent = Value<std::optional<int>>::Read(L, 2);
  lua_settop(L, 1);
  return Value<std::string>::Push(L, EncodeJson(L, indent));
}

// Pushes the parsed value; if it is a map, also the table key -> line of its top-level keys.
Pushed DecodeYaml(lua_State* L, std::string text, std::optional<std::string> where) {
  base::ChargedBytes room;
  base::ThrowIfError(room.Add(ParsedBytes(text, 640, 640, 640),
                              "parsed YAML"));  // a node of yaml-cpp takes 500 bytes
  const YamlDocument document = base::ValueOrThrow(ParseYaml(text, where.value_or("YAML")));
  PushJson(L, document.value);
  lua_newtable(L);
  for (const auto& [key, line] : document.lines) {
    lua_pushnumber(L, line);
    lua_setfield(L, -2, key.c_str());
  }
  lua_newtable(L);
  for (const auto& [key, text_of] : document.texts) {
    lua_pushlstring(L, text_of.data(), text_of.size());
    lua_setfield(L, -2, key.c_str());
  }
  return {3};
}

// The Lua function find_text(text, sought, from): returns the position of the first occurrence,
// from 1; nil if there is none. Takes linear time.
int FindText(lua_State* L) {
  size_t size = 0, sought_size = 0;
  CheckType(L, 1, LUA_TSTRING);
  CheckType(L, 2, LUA_TSTRING);
  const char* const text = lua_tolstring(L, 1, &size);
  const char* const sought = lua_tolstring(L, 2, &sought_size);
  const int64_t from = Value<int64_t>::Read(L, 3) - 1;
  const void* const found = from < 0 || from > static_cast<int64_t>(size)
                                ? nullptr
                                : memmem(text + from, size - from, sought, sought_size);
  if (found == nullptr) return lua_pushnil(L), 1;
  lua_pushnumber(L, static_cast<double>(static_cast<const char*>(found) - text + 1));
  return 1;
}

double SecondsOfClock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the number of ranks according to the environment, including this process; 0 if the
// environment does not say.
int WorldSize() {
  const auto rendezvous = base::ValueOrThrow(comm::RendezvousFromEnvironment());
  return rendezvous.has_value() ? rendezvous->world_size : 0;
}

// Turns this process into the launcher of `ranks` processes; ends with their exit code.
void Launch(lua_State* L, int ranks) {
  const Host& host = HostOf(L);
  if (host.prompt != nullptr) {
    Raise(absl::FailedPreconditionError(absl::StrCat(
        ranks, " ranks are requested, and a prompt's are there from its start: moonring -n ", ranks,
        " repl")));
  }
  if (host.embedded) {
    if (ranks == 1)
      Raise(
          absl::FailedPreconditionError("max_restarts: an embedded runtime starts no process, so "
                                        "nobody would start it again; expected 0"));
    Raise(absl::FailedPreconditionError(
        absl::StrCat(ranks,
                     " ranks are requested, and an embedded runtime is one: it starts no process. "
                     "RANK and WORLD_SIZE in the "
                     "environment make it one of several")));
  }
  if (host.sandbox && !host.own_script) {
    Raise(absl::PermissionDeniedError(
        absl::StrCat("--sandbox: a script starts no ranks; moonring -n ", ranks, " does")));
  }
  base::ThrowIfError(CheckRanks(ranks));
  BecomeLauncher(ranks, host.command);
}

// Sandboxed scripts can only read the environment variables that Moonring's own Lua modules use.
std::optional<std::string> EnvironmentVariable(lua_State* L, std::string name) {
  const bool own = name == "LOCAL_WORLD_SIZE" || name == "LOCAL_RANK" || name == "SLURM_LOCALID" ||
                   name == "ALLOW_EXTRA_ARGS" || name == "TORCHELASTIC_RESTART_COUNT";
  const char* value = HostOf(L).sandbox && !own ? nullptr : std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Whether signals that end a run are handled elsewhere: by the application that embeds the runtime,
// or by an interactive prompt, where Ctrl-C stops running code (lua/host/interrupt.h).
bool LeavesSignals(lua_State* L) { return HostOf(L).embedded || HostOf(L).prompt != nullptr; }

// Returns the signal that asked to end or to save since the last call, by its name; nil if there
// was none.
std::optional<std::string> Preemption(lua_State* L) {
  const Host& host = HostOf(L);
  if (host.embedded) {
    const bool wished =
        host.limits.cancel != nullptr && host.limits.cancel->load() != Cancel::kNone;
    return wished ? std::optional<std::string>("cancelled") : std::nullopt;
  }
  const int signal = TakePreemption();
  return signal == 0 ? std::nullopt : std::optional<std::string>(NameOfSignal(signal));
}

// Only rank 0 prints a message about a signal; the other ranks get the request by
// communication.
void Catch(lua_State* L, std::optional<bool> at_end) {
  if (LeavesSignals(L)) return;
  const auto rendezvous = base::ValueOrThrow(comm::RendezvousFromEnvironment());
  const bool says = !rendezvous.has_value() || rendezvous->rank == 0;
  CatchPreemption(!says                    ? PreemptionAnswer::kNone
                  : at_end.value_or(false) ? PreemptionAnswer::kAtEnd
                                           : PreemptionAnswer::kAtBorder);
}

void EndAsPreempted(lua_State* L, std::string wish) {
  EndIfCancelled(HostOf(L));
  if (HostOf(L).embedded)  // this rank was not cancelled itself
    Raise(absl::CancelledError("the run was cancelled on another rank"));
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    if (wish == NameOfSignal(signal)) EndBySignal(signal);
  }
  Raise(absl::InvalidArgumentError(
      absl::StrCat("'", wish, "' ends no run; expected SIGTERM, SIGINT or SIGHUP")));
}

// The Lua function function_place(f): "mine.lua:12", where f is defined; "" for a native function.
int FunctionPlace(lua_State* L) {
  CheckType(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_Debug frame;
  const bool is_lua = lua_getinfo(L, ">S", &frame) != 0 && frame.linedefined >= 0;
  return Value<std::string>::Push(
      L, is_lua ? absl::StrCat(frame.short_src, ":", frame.linedefined) : "");
}

// Passes a table to the application that embeds the runtime; does nothing in a program without one.
int TellProgress(lua_State* L) {
  CheckType(L, 1, LUA_TTABLE);
  const Host& host = HostOf(L);
  if (!host.progress) return 0;
  lua_settop(L, 1);
  host.progress(EncodeJson(L, std::nullopt));
  return 0;
}

void Say(lua_State* L, std::string stream, std::string line) {
  if (HostOf(L).log) HostOf(L).log(stream == "output" ? LogKind::kOutput : LogKind::kNote, line);
}

// Calls a Lua function with the script's error and its code when the script has ended; with nothing
// if there was no error. Its own errors are ignored: the first one is what the user must see.
int AtEnd(lua_State* L) {
  CheckType(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  lua_State* const own = lua_newthread(L);  // L may be a coroutine, which may be gone by then
  const int kept = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_xmove(L, own, 1);
  HostOf(L).closers.push_back([own, kept](const ScriptError& error) {
    int arguments = 0;
    if (error.exit_code != 0) {
      Value<std::string>::Push(own, error.error.Shown());
      Value<std::string>::Push(own, absl::StatusCodeToString(error.error.code));
      arguments = 2;
    }
    (void)lua_pcall(own, arguments, 0, 0);
    luaL_unref(own, LUA_REGISTRYINDEX, kept);
  });
  return 0;
}

}  // namespace

void OpenSystem(lua_State* L) {
  PushModule(
      L, "moonring.system",
      {
          {"read", Bind<[](std::string path) { return ReadWhole(path); }>},
          {"read_part", Bind<[](std::string path, int64_t offset, int64_t bytes) {
             return ReadPart(path, offset, bytes);
           }>},
          {"write",
           Bind<[](std::string path, std::string text) { return base::WriteWhole(path, text); }>},
          {"make_folder",
           Bind<[](std::string path) { base::ValueOrThrow(base::MakeFolder(path)); }>},
          {"check_make_folder",
           Bind<[](std::string path) { base::ThrowIfError(base::CheckMakeFolder(path)); }>},
          {"remove", Bind<[](std::string path) { Remove(path); }>},
          {"list", Bind<[](std::string path) { return ListFolder(path); }>},
          {"exists", Bind<[](std::string path) { return Exists(path); }>},
          {"is_folder", Bind<[](std::string path) { return IsFolder(path); }>},
          {"absolute",
           Bind<[](std::string path) { return fs::absolute(path).lexically_normal().string(); }>},
          {"find_text", BindRaw<&FindText, 3>},
          {"search_pattern", BindRaw<&SearchPattern, 5>},
          {"visible", Bind<[](std::string text) { return base::VisibleText(text); }>},
          {"is_inside_name",
           Bind<[](std::string name) { return base::CheckInsideName(name).ok(); }>},
          {"sha1", Bind<[](std::string bytes) { return c10::sha1(bytes).str(); }>},
          {"json_decode", Bind<&DecodeJson>},
          {"json_encode", BindRaw<&EncodeJsonCall, 2>},
          {"yaml_decode", Bind<&DecodeYaml>},
          {"clock", Bind<[] { return SecondsOfClock(); }>},
          {"did_you_mean", Bind<[](std::string name, std::vector<std::string> known) {
             return base::DidYouMean(name, known);
           }>},
          {"outlive_stdout", Bind<&OutliveStdout>},
          {"parent_id", Bind<&ParentId>},
          {"script_place", Bind<&ScriptPlace>},
          {"function_place", BindRaw<&FunctionPlace, 1>},
          {"is_terminal", Bind<[] { return isatty(STDERR_FILENO) != 0; }>},
          {"environment", Bind<&EnvironmentVariable>},
          {"world_size", Bind<&WorldSize>},
          {"starts_ranks", Bind<[](lua_State* state) { return !HostOf(state).embedded; }>},
          {"command", Bind<[](lua_State* state) { return HostOf(state).command; }>},
          {"requested_ranks", Bind<[](lua_State* state) { return HostOf(state).ranks; }>},
          {"requested_device", Bind<[](lua_State* state) { return HostOf(state).device; }>},
          {"launch", Bind<&Launch>},
          {"offer_restarts", Bind<[](int restarts) { OfferRestarts(restarts); }>},
          {"catch_preemption", Bind<&Catch>},
          {"release_preemption", Bind<[](lua_State* state) {
             if (!LeavesSignals(state)) ReleasePreemption();
           }>},
          {"preemption", Bind<&Preemption>},
          {"end_as_preempted", Bind<&EndAsPreempted>},
          {"check_stack", Bind<[] {}>},  // the guard around it checks the stack
          {"count_caught", Bind<[](lua_State* state) { CountCaught(state); }>},
          {"tell_progress", BindRaw<&TellProgress, 1>},
          {"at_end", BindRaw<&AtEnd, 1>},
          {"say", Bind<&Say>},
          {"version", Bind<[] { return std::string(kVersion); }>},
          {"torch_version", Bind<[] { return std::string(TORCH_VERSION); }>},
          {"started", Bind<[](lua_State* state, std::optional<bool> started) {
             HostOf(state).started = started.value_or(true);
           }>},
          {"commands", Bind<[](lua_State* state) { return HostOf(state).assets.scripts(); }>},
          {"script_path", Bind<[](lua_State* state, std::string name) {
             return HostOf(state).assets.script(name);
           }>},
          {"report_page",
           Bind<[](lua_State* state) { return HostOf(state).assets.report_page(); }>},
          {"module_path", Bind<[](lua_State* state, std::string name) {
             return HostOf(state).assets.module(name);
           }>},
          {"builtin", Bind<[](lua_State* state, std::string name) {
             return HostOf(state).assets.builtin(name);
           }>},
      });
  PushNull(L);
  lua_setfield(L, -2, "null");
}

}  // namespace moonring::lua
