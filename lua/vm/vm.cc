#include "lua/vm/vm.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/files/input_file.h"
#include "base/memory/memory_account.h"
#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/guard.h"
#include "lua/binding/tensor.h"
#include "lua/vm/key_order.h"
#include "lua/vm/script_error.h"

namespace moonring::lua {
namespace {

const char kHost = 0, kSandbox = 0;  // their addresses are registry keys

std::string ReadFile(const std::string& path) {
  base::ThrowIfError(base::CheckFileSize(path, base::kMostWrittenFile));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw base::StatusError(
        absl::InvalidArgumentError(absl::StrCat(path, " is a folder, expected a script")));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw base::StatusError(absl::NotFoundError(absl::StrCat("cannot read ", path)));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// An entry of package.loaders: finds the modules "moonring" and "moonring.x" in Moonring's files.
int LoadOwnModule(lua_State* L) {
  const std::string name = luaL_checkstring(L, 1);
  if (name != "moonring" && !absl::StartsWith(name, "moonring.")) return lua_pushnil(L), 1;
  const std::string file = name == "moonring" ? "init" : name.substr(9);
  const std::string path = HostOf(L).assets.module(file);
  std::ifstream exists(path);
  if (!exists) {
    lua_pushstring(L, absl::StrCat("\n\tno module '", name, "' among Moonring's own").c_str());
    return 1;
  }
  const std::string text = ReadFile(path);
  const std::string chunk = absl::StrCat(kOwnChunk, absl::StrReplaceAll(file, {{".", "/"}}));
  if (luaL_loadbuffer(L, text.data(), text.size(), chunk.c_str()) != 0) return lua_error(L);
  return 1;
}

void AddLoader(lua_State* L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  for (int i = static_cast<int>(lua_objlen(L, -1)); i >= 2;
       --i) {  // after package.preload, before the search paths
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, &LoadOwnModule);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}

void OpenLibraries(lua_State* L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaded");
  for (const Library& library : HostOf(L).libraries) {
    library.open(L);
    lua_setfield(L, -2, library.name);
  }
  lua_pop(L, 2);
}

// Thrown for a script with a syntax error. Its message is shown without a call stack.
class Unreadable : public std::exception {
 public:
  explicit Unreadable(std::string why) : why_(std::move(why)) {}
  const char* what() const noexcept override { return why_.c_str(); }

 private:
  std::string why_;
};

// Calls require(module)[function]() and leaves the results on the stack.
void CallOwn(lua_State* L, const char* module, const char* function, int results) {
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  lua_call(L, 1, 1);
  lua_getfield(L, -1, function);
  lua_remove(L, -2);
  lua_call(L, 0, results);
}

// Reads a function's results from stack position `first` on, which must be tensors.
std::vector<at::Tensor> TakeTensors(lua_State* L, int first) {
  std::vector<at::Tensor> tensors;
  for (int i = first; i <= lua_gettop(L); ++i) {
    if (Class<TensorHandle>::Test(L, i) == nullptr) {
      throw base::StatusError(absl::InvalidArgumentError(
          absl::StrCat("result ", i - first + 2, " of the function: expected a tensor, got a ",
                       luaL_typename(L, i))));
    }
    tensors.push_back(Value<at::Tensor>::Read(L, i));
  }
  return tensors;
}

ScriptError Ended(int exit_code, ErrorValue error) {
  std::string message = error.Text();
  return {.exit_code = exit_code, .message = std::move(message), .error = std::move(error)};
}

// A protected call: its body, and its outcome.
struct BodyCall {
  const std::function<void(lua_State*)>& body;
  Host& host;
  ScriptError error;
  std::string whole_traceback = {};
};

// Message handler of a protected call; its upvalue is the BodyCall. It runs before the stack is
// unwound, so it can still read the stack of the error.
int NoteFramesOfBody(lua_State* L) {
  auto& call = *static_cast<BodyCall*>(lua_touserdata(L, lua_upvalueindex(1)));
  try {
    call.error.traceback = ScriptFrames(L);
    if (std::getenv("MOONRING_TRACEBACK") != nullptr) {  // the whole stack, including Moonring's
                                                         // functions
      luaL_traceback(L, L, nullptr, 1);
      call.whole_traceback = absl::StrCat("\n", lua_tostring(L, -1));
      lua_pop(L, 1);
    }
  } catch (const std::bad_alloc&) {  // the error itself is more important
    call.error.traceback.clear();
  }
  return 1;
}

int RunBody(lua_State* L) {
  auto& call = *static_cast<BodyCall*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  try {
    call.body(L);
  } catch (const Unreadable& why) {  // a syntax error, before anything ran
    call.error = Ended(2, {.message = why.what()});
  }
  return 0;
}

// Returns the error on top of the stack.
ErrorValue ErrorOf(lua_State* L, int ended, const Host& host) {
  if (ended != LUA_ERRMEM) return ReadError(L, -1);
  const bool outer = host.limits.outer_is_full;
  const auto& confinement = outer ? host.limits.outer : host.limits.confinement;
  const int64_t most = confinement != nullptr ? confinement->memory() : 0;
  const std::string limit =
      most == 0 ? ""
                : absl::StrCat(", as ", outer ? "--sandbox-memory" : host.memory_limit, " allows ",
                               most, " bytes");
  return {.message = absl::StrCat(base::OutOfMemory("scripts", 0), limit), .out_of_memory = true};
}

int RunBodyProtected(lua_State* L) {
  auto& call = *static_cast<BodyCall*>(lua_touserdata(L, 1));
  lua_pushlightuserdata(L, &call);
  lua_pushcclosure(L, &NoteFramesOfBody, 1);
  lua_pushcfunction(L, &RunBody);
  lua_pushlightuserdata(L, &call);
  const int ended = lua_pcall(L, 1, 0, 2);
  if (ended == 0) return 0;
  std::string frames = std::move(call.error.traceback);
  ErrorValue error = ErrorOf(L, ended, call.host);
  const int exit_code = ExitCode(error, call.host.started);
  call.error = Ended(exit_code, std::move(error));
  call.error.heap_is_full = ended == LUA_ERRMEM;
  if (ended == LUA_ERRMEM || !AddsToMessage(frames, call.error.error, exit_code)) frames.clear();
  call.error.traceback = std::move(call.whole_traceback.empty() ? frames : call.whole_traceback);
  return 0;
}

}  // namespace

Host& HostOf(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kHost));
  lua_rawget(L, LUA_REGISTRYINDEX);
  auto* host = static_cast<Host*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *host;
}

int ExitCode(const ErrorValue& error, bool started) {
  // Memory is known before the first step; a full disk has the same code, and comes later.
  if (error.out_of_memory) return started ? 1 : 2;
  switch (error.code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kDataLoss:
      return started ? 1 : 2;
    default:  // a port in use, a lost rank, a defect of the script
      return 1;
  }
}

Vm::Vm(Host host)
    : host_(std::make_unique<Host>(std::move(host))), state_(NewState(host_->limits)) {
  if (state_ == nullptr) throw std::runtime_error("cannot make a Lua state: out of memory");
  const ScriptError error = Protect([this](lua_State* L) {
    luaL_openlibs(L);  // this turns the JIT compiler on
    if (host_->sandbox || host_->limits.Any())
      luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);  // compiled code does not count
                                                                   // instructions
    lua_pushlightuserdata(L, const_cast<char*>(&kHost));
    lua_pushlightuserdata(L, host_.get());
    lua_rawset(L, LUA_REGISTRYINDEX);
    InstallGuard(L);
    AddLoader(L);
    InstallKeyOrder(L);  // before any module or script keeps the functions that it replaces
    OpenLibraries(L);
    if (host_->embedded) CallOwn(L, "moonring.sandbox.outlet", "install", 0);
    if (host_->limits.instructions > 0 || host_->limits.cancel != nullptr ||
        host_->limits.has_deadline)
      CallOwn(L, "moonring.sandbox.patterns", "guard", 0);
    if (host_->sandbox) CallOwn(L, "moonring.sandbox", "confine", 0);
  });
  if (error.exit_code != 0) throw std::runtime_error(error.message);
}

ScriptError Vm::Run(const std::string& path, const std::string& chunk,
                    const std::vector<std::string>& arguments) {
  std::string text;
  if (const absl::Status read = base::TryTorch([&] { text = ReadFile(path); }); !read.ok()) {
    const ScriptError error = Ended(2, ErrorOfStatus(read));
    if (host_->report) host_->report(error);
    return error;
  }
  if (!text.empty() && text[0] == '#') text.insert(0, "--");  // a "#!" line
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return RunText(text, chunk, words);
}

ScriptError Vm::RunText(const std::string& text, const std::string& chunk,
                        const std::vector<std::string>& words) {
  return RunAndClose([&](lua_State* L) {
    Load(L, text, chunk, words);
    Watch(L, &host_->limits);
    for (size_t i = 1; i < words.size(); ++i) lua_pushlstring(L, words[i].data(), words[i].size());
    lua_call(L, std::max(0, static_cast<int>(words.size()) - 1), 0);
  });
}

ScriptError Vm::Call(const std::string& function, const std::string& json,
                     absl::Span<const at::Tensor> tensors, CallResult& result) {
  return RunAndClose([&](lua_State* L) {
    host_->own_script = false;
    luaL_checkstack(L, static_cast<int>(tensors.size()) + 8, "too many tensors");
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    lua_getfield(L, -1, "moonring.native.system");
    const int system = lua_gettop(L);
    lua_getfield(L, system, "json_encode");
    PushGlobals(L, host_->sandbox);
    lua_pushlstring(L, function.data(), function.size());
    lua_rawget(L, -2);
    lua_remove(L, -2);
    if (!lua_isfunction(L, -1))
      throw base::StatusError(absl::NotFoundError(
          absl::StrCat("no script defined a global function '", function, "'")));
    const int called = lua_gettop(L);
    if (!json.empty()) {
      lua_getfield(L, system, "json_decode");
      lua_pushlstring(L, json.data(), json.size());
      lua_call(L, 1, 1);
    } else if (!tensors.empty()) {
      lua_pushnil(L);
    }
    for (const at::Tensor& tensor : tensors) Value<at::Tensor>::Push(L, tensor);
    Watch(L, &host_->limits);
    lua_call(L, lua_gettop(L) - called, LUA_MULTRET);
    result.tensors = TakeTensors(L, called + 1);
    if (lua_gettop(L) < called || lua_isnil(L, called)) return;
    lua_settop(L, called);
    lua_call(L, 1, 1);  // json_encode
    size_t size = 0;
    const char* const text = lua_tolstring(L, -1, &size);
    result.json.assign(text, size);
  });
}

// Pushes the table of globals for user scripts. All scripts of a Vm share one table, so a script
// can define functions that are called later.
void Vm::PushGlobals(lua_State* L, bool sandbox) {
  if (!sandbox) return lua_pushvalue(L, LUA_GLOBALSINDEX);
  lua_pushlightuserdata(L, const_cast<char*>(&kSandbox));
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_istable(L, -1)) return;
  lua_pop(L, 1);
  CallOwn(L, "moonring.sandbox", "globals", 1);
  lua_pushlightuserdata(L, const_cast<char*>(&kSandbox));
  lua_pushvalue(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

// Compiles the script, and leaves it on the stack as a function. `words`: the script's path and its
// arguments.
void Vm::Load(lua_State* L, const std::string& text, const std::string& chunk,
              const std::vector<std::string>& words) {
  host_->own_script = absl::StartsWith(chunk, kOwnChunk);
  const bool sandbox = host_->sandbox && !host_->own_script;
  PushGlobals(L, sandbox);
  lua_createtable(L, static_cast<int>(words.size()), 1);
  for (size_t i = 0; i < words.size(); ++i) {
    lua_pushlstring(L, words[i].data(), words[i].size());
    lua_rawseti(L, -2, static_cast<int>(i));
  }
  lua_pushvalue(L, -1);
  lua_setglobal(L, "arg");  // for Moonring's own modules
  lua_pushliteral(L, "arg");
  lua_insert(L, -2);
  lua_rawset(L, -3);
  // A sandbox accepts only source text, because LuaJIT does not verify bytecode.
  if (luaL_loadbufferx(L, text.data(), text.size(), chunk.c_str(),
                       host_->sandbox ? "t" : nullptr) != 0) {
    const std::string why = lua_tostring(L, -1);
    throw Unreadable(why);
  }
  lua_pushvalue(L, -2);
  lua_setfenv(L, -2);
  lua_remove(L, -2);
}

ScriptError Vm::Protect(const std::function<void(lua_State*)>& body) {
  lua_State* const L = state_.get();
  lua_sethook(L, nullptr, 0, 0);  // removes the hook of the previous run
  BodyCall call{body, *host_, {}};
  const int ended = lua_cpcall(L, &RunBodyProtected,
                               &call);  // lua_cpcall allocates nothing outside its own protection
  if (ended != 0) {
    ErrorValue error = ErrorOf(L, LUA_ERRMEM, *host_);
    const int exit_code = ExitCode(error, host_->started);
    call.error = Ended(exit_code, std::move(error));
    call.error.heap_is_full = true;
  }
  lua_settop(L, 0);
  CollectAfterRun(L, host_->limits);
  return call.error;
}

ScriptError Vm::Do(Limits::Clock::time_point deadline,
                   const std::function<void(lua_State*)>& body) {
  const base::ConfinedScope confined(host_->limits.confinement != nullptr
                                         ? host_->limits.confinement
                                         : base::CurrentConfinement());
  host_->limits.deadline = deadline;
  return Protect([&](lua_State* L) {
    Watch(L, &host_->limits);
    body(L);
  });
}

// Runs a script's body, then closes what it opened.
ScriptError Vm::RunAndClose(const std::function<void(lua_State*)>& body) {
  const base::ConfinedScope confined(host_->limits.confinement != nullptr
                                         ? host_->limits.confinement
                                         : base::CurrentConfinement());
  ScriptError error = Protect([&](lua_State* L) {
    EndIfCancelled(*host_);
    body(L);
  });
  if (error.exit_code != 0 && host_->report) host_->report(error);
  if (host_->embedded && host_->log) {
    for (const absl::string_view line : absl::StrSplit(error.traceback, '\n', absl::SkipEmpty()))
      host_->log(LogKind::kNote, std::string(line));
  }
  for (; !host_->closers.empty(); host_->closers.pop_back()) host_->closers.back()(error);
  if (host_->embedded)
    lua_gc(state_.get(), LUA_GCCOLLECT,
           0);  // otherwise a model left by a run would stay in memory until the next one
  return error;
}

absl::StatusOr<std::shared_ptr<base::Confinement>> ConfineTo(base::ConfinementOptions options,
                                                             const Assets& assets) {
  // In Bazel's runfiles each file is a link; the folder of its real location must be readable.
  const auto folder_of = [&](const std::string& file) {
    return std::filesystem::path(base::WithoutLinks(file)).parent_path().string();
  };
  options.readable = {folder_of(assets.module("init")),
                      folder_of(assets.script("train")),
                      folder_of(assets.root() + "/lua/types/moonring.lua"),
                      assets.root() + "/lua/moonring",
                      assets.root() + "/lua/types",
                      assets.root() + "/scripts",
                      "/proc/meminfo",
                      "/proc/self/cgroup",
                      "/sys/fs/cgroup"};
  const std::vector<std::string> models = assets.builtin_models();
  options.readable.insert(options.readable.end(), models.begin(), models.end());
  options.readable.push_back(assets.words());
  options.readable.push_back(assets.report_page());
  return base::Confinement::Create(std::move(options));
}

bool IsCancelled(const Host& host) {
  return host.limits.cancel != nullptr && EndsNow(host.limits.cancel->load());
}

void EndIfCancelled(const Host& host) {
  if (host.limits.cancel != nullptr && host.limits.cancel->load() != Cancel::kNone)
    throw base::StatusError(absl::CancelledError("the run was cancelled"));
}

}  // namespace moonring::lua
