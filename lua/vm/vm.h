#ifndef MOONRING_LUA_VM_VM_H_
#define MOONRING_LUA_VM_VM_H_

// A Lua state with Moonring's modules, and functions that run scripts in it.
//
//   require "moonring"          loads lua/moonring/init.lua: all bindings and Lua modules
//   require "moonring.config"   loads lua/moonring/config/init.lua, and so on
//
// A state may be used only by the thread that created it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <lua.hpp>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/files/confinement.h"
#include "lua/binding/error_value.h"
#include "lua/vm/assets.h"
#include "lua/vm/limits.h"
#include "trainer/reports/memory_watch.h"

namespace moonring::lua {

struct Prompt;  // lua/host/prompt.h

enum class LogKind {
  kOutput,
  kNote,
  kWarning
};  // script output; messages about a run; warnings of libraries

// How a script ended.
struct ScriptError {
  int exit_code = 0;           // 0: the script succeeded
  std::string message = {};    // error.Text()
  std::string traceback = {};  // "\n  sft.lua:12: in function 'loss'..", "" if the message is
                               // sufficient (lua/vm/script_error.h)
  ErrorValue error = {};
  bool heap_is_full = false;  // the Lua heap reached its limit
};

// A native library: a module for `require`, and the function that registers its classes and leaves
// its table of functions on the stack.
struct Library {
  const char* name;
  void (*open)(lua_State*);
};

// Data that the program passes to its scripts, and callbacks and results that come back.
struct Host {
  Assets assets;
  absl::Span<const Library> libraries;  // AllLibraries() (lua/bindings/libraries.h)
  std::vector<std::string> command;     // this process's command line, to start ranks with the same
                                        // one
  std::string device = "auto";          // cpu | cuda | auto
  int ranks = 0;                        // the option -n; 0 if it was not given
  bool sandbox = false;  // user scripts see only the globals of lua/moonring/sandbox/init.lua
  Limits limits;         // for everything that runs, including Moonring's own scripts
  std::string memory_limit = "--sandbox-memory";  // name of the option that set the memory limit,
                                                  // for messages
  bool embedded =
      false;  // inside another application: no signal handlers, fork or exit (lua/embed.h)
  // Callbacks: `log` receives lines that would otherwise go to stdout and stderr; `progress`
  // receives a run's reports of its steps (JSON). If empty, lines go to the streams, and reports
  // are dropped.
  std::function<void(LogKind kind, const std::string& line)> log;
  std::function<void(const std::string& json)> progress;
  // Callback that receives a failure. It is called before objects are closed, because closing waits
  // for other ranks. May be empty.
  std::function<void(const ScriptError& error)> report;
  std::shared_ptr<Prompt> prompt;  // null unless this is an interactive prompt
  bool own_script = false;         // whether the running script is one of Moonring's commands
  // Functions that close what the script opened, called in reverse order when the script has ended.
  // (The garbage collector would close objects in an undefined order.) Each receives how it ended.
  std::vector<std::function<void(const ScriptError& error)>> closers;
  trainer::MemorySample memory_at_start;  // after the bindings are registered, before any script
  bool started =
      false;  // set when the script's first step begins: later failures exit with 1 instead of 2
};

// The results of a called function: the first one as JSON, and the tensors after it.
struct CallResult {
  std::string json = "null";
  std::vector<at::Tensor> tensors = {};
};

class Vm {
 public:
  explicit Vm(Host host);
  Vm(const Vm&) = delete;
  Vm& operator=(const Vm&) = delete;

  // Runs a script and closes what it opened. `chunk`: "=moonring/..." for Moonring's own scripts,
  // "@path" for a user's.
  ScriptError Run(const std::string& path, const std::string& chunk,
                  const std::vector<std::string>& arguments);
  ScriptError RunText(const std::string& text, const std::string& chunk,
                      const std::vector<std::string>& arguments);
  // Calls a global function that a user's script defined. `json`: the function's first argument as
  // JSON, "" for nil; `tensors`: the arguments after it. Errors: INVALID_ARGUMENT if a result after
  // the first one is not a tensor.
  ScriptError Call(const std::string& function, const std::string& json,
                   absl::Span<const at::Tensor> tensors, CallResult& result);
  // Runs `body` in this state on behalf of another state (lua/vm/isolated_state.h), with this
  // state's limits and the given deadline. Cancellation is only checked while `body` runs, not
  // before or after it. An exception in `body` becomes the returned error.
  ScriptError Do(Limits::Clock::time_point deadline, const std::function<void(lua_State*)>& body);

  lua_State* state() { return state_.get(); }

 private:
  // Runs `body` in protected mode: a Lua error, including out of memory, ends only `body`.
  ScriptError Protect(const std::function<void(lua_State*)>& body);
  ScriptError RunAndClose(const std::function<void(lua_State*)>& body);
  void PushGlobals(lua_State* L, bool sandbox);
  void Load(lua_State* L, const std::string& text, const std::string& chunk,
            const std::vector<std::string>& arguments);
  struct CloseState {
    void operator()(lua_State* L) const { lua_close(L); }
  };
  std::unique_ptr<Host> host_;
  std::unique_ptr<lua_State, CloseState> state_;
};

// Creates the restrictions of --sandbox (files and memory) in such a way that Moonring itself can
// work: its own files, and the kernel's information about memory, are readable too.
absl::StatusOr<std::shared_ptr<base::Confinement>> ConfineTo(base::ConfinementOptions options,
                                                             const Assets& assets);

// Whether the running script was cancelled and must end at once.
bool IsCancelled(const Host& host);

// Raises the cancellation error in Lua if the run was cancelled.
void EndIfCancelled(const Host& host);

// Returns the Host that belongs to a Lua state; used by bindings.
Host& HostOf(lua_State* L);

// Exit code for an uncaught error, from its status code and from `started`: whether the first
// training step had begun.
int ExitCode(const ErrorValue& error, bool started);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_VM_H_
