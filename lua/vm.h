#ifndef MOONRING_LUA_VM_H_
#define MOONRING_LUA_VM_H_

// A Lua state with Moonring's modules, and functions that run scripts in it.
//
//   require "moonring"          lua/moonring/init.lua, which joins the bindings and the Lua modules
//   require "moonring.config"   lua/moonring/config/init.lua, and so on
//
// A state may be used only by the thread that created it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lua.hpp>

#include "absl/status/statusor.h"
#include "base/files/confinement.h"
#include "lua/assets.h"
#include "lua/limits.h"
#include "trainer/reports/memory_watch.h"

namespace moonring::lua {

struct Prompt;  // lua/prompt.h

enum class LogKind {
  kOutput,
  kNote,
  kWarning
};  // script output; messages about a run; warnings of libraries

// What the program passes to its scripts, and what they report back.
struct Host {
  Assets assets;
  std::vector<std::string> command;  // this process's command line, to start ranks with the same
                                     // one
  std::string device = "auto";       // cpu | cuda | auto
  int ranks = 0;                     // -n, 0 where it was not given
  bool sandbox = false;  // user scripts see only the globals of lua/moonring/sandbox/init.lua
  Limits limits;         // for everything that runs, including Moonring's own scripts
  std::string memory_limit = "--sandbox-memory";  // name of the option that set the memory limit,
                                                  // for messages
  bool embedded =
      false;  // inside another application: no signal handlers, fork or exit (lua/embed.h)
  // Callbacks for output that would go to stdout and stderr, line by line, and for a run's reports
  // of its steps (JSON). Empty: output goes to the streams, reports nowhere.
  std::function<void(LogKind kind, const std::string& line)> log;
  std::function<void(const std::string& json)> progress;
  // Callback for the reason of a failure, with the script's traceback, before opened objects are
  // closed, which waits for other ranks. May be empty.
  std::function<void(const std::string& message)> report;
  std::shared_ptr<Prompt> prompt;  // null: runs a script, not a prompt
  bool own_script = false;         // runs one of Moonring's scripts, not a user's
  // Functions that close what the script opened, called in reverse order when it has ended. The
  // garbage collector is not used for this because its order is undefined. Each receives the
  // script's error, or "".
  std::vector<std::function<void(const std::string& error)>> closers;
  trainer::MemorySample memory_at_start;  // after the bindings are registered, before any script
  bool started =
      false;  // set when the script's first step begins: later failures exit with 1 instead of 2
};

struct ScriptError {
  int exit_code = 0;  // 0: the script succeeded
  std::string message;
  std::string traceback = {};  // "\n  sft.lua:12: in function 'loss'..", "" if the message is
                               // sufficient (lua/script_error.h)
  bool out_of_memory = false;  // the Lua heap reached its limit
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
  // Calls a global function defined by a user's script. `json`: its argument, "" for none;
  // `result`: its first result as JSON.
  ScriptError Call(const std::string& function, const std::string& json, std::string& result);
  // Runs `body` for a computation of another state, with this state's limits and the given
  // deadline. Cancellation is only checked while `body` runs, not before or after it. An exception
  // in `body` becomes the returned error.
  ScriptError Do(Limits::Clock::time_point deadline, const std::function<void(lua_State*)>& body);

  lua_State* state() { return state_.get(); }

 private:
  // Runs `body` in protected mode: a Lua error, including out of memory, ends only it.
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

// Creates a confinement in which Moonring itself can work: its own files, and the kernel's
// information about memory, are readable too.
absl::StatusOr<std::shared_ptr<base::Confinement>> ConfineTo(base::ConfinementOptions options,
                                                             const Assets& assets);

// Whether the running script was cancelled and must end at once.
bool IsCancelled(const Host& host);

// Raises the cancellation error if the run was cancelled.
void EndIfCancelled(const Host& host);

// Returns the host of a state, for bindings.
Host& HostOf(lua_State* L);

// Exit code for an uncaught error, from the status code in its text (lua/binding/guard.h) and
// whether the first step had begun.
int ExitCode(const std::string& message, bool started);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_H_
