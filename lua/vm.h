#ifndef MOONRING_LUA_VM_H_
#define MOONRING_LUA_VM_H_

// One Lua state with Moonring's modules, and how a script runs in it.
//
//   require "moonring"          lua/moonring/init.lua, which joins the bindings and the Lua modules
//   require "moonring.config"   lua/moonring/config.lua, and so on
//
// A state belongs to the thread that made it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lua.hpp>

#include "absl/status/statusor.h"
#include "base/files/confinement.h"
#include "lua/assets.h"
#include "lua/limits.h"
#include "trainer/memory_watch.h"

namespace moonring::lua {

struct Prompt;  // lua/prompt.h

enum class LogKind {
  kOutput,
  kNote,
  kWarning
};  // what scripts print; what the host tells of a run; what a library warns of

// What the host tells its scripts, and what they tell it.
struct Host {
  Assets assets;
  std::vector<std::string> command;  // how this process was called, to start ranks in the same way
  std::string device = "auto";       // cpu | cuda | auto
  int ranks = 0;                     // -n, 0 where it was not given
  bool sandbox = false;  // a user's script sees the globals of lua/moonring/sandbox.lua alone
  Limits limits;         // of all that runs, Moonring's own scripts too
  std::string memory_limit = "--sandbox-memory";  // what set the memory's, for messages
  bool embedded =
      false;  // in a process of someone else's: no signal handler, no fork, no exit (lua/embed.h)
  // Take what would go to stdout and stderr, a line at a time, and what a run tells of its steps
  // (JSON); empty: the streams, nobody.
  std::function<void(LogKind kind, const std::string& line)> log;
  std::function<void(const std::string& json)> progress;
  // Takes why a run fails, with the script's traceback below, before what it opened is closed:
  // ranks wait for one another then. Empty: nobody.
  std::function<void(const std::string& message)> report;
  std::shared_ptr<Prompt> prompt;  // null: a script runs, not a prompt
  bool own_script = false;         // what runs is one of Moonring's own, not a user's
  // What the host closes when the script has ended, the last opened first: never the collector,
  // whose order nobody knows. Each gets the script's error, "" where there was none.
  std::vector<std::function<void(const std::string& error)>> closers;
  trainer::MemorySample memory_at_start;  // once the bindings are there, before any script
  bool started =
      false;  // set by the script once its first step begins: what fails later exits with 1, not 2
};

struct ScriptError {
  int exit_code = 0;  // 0: the script ended well
  std::string message;
  std::string traceback = {};  // "\n  sft.lua:12: in function 'loss'..", "" where the message says
                               // it all (lua/script_error.h)
  bool out_of_memory = false;  // Lua's heap may not grow further
};

class Vm {
 public:
  explicit Vm(Host host);
  Vm(const Vm&) = delete;
  Vm& operator=(const Vm&) = delete;

  // `chunk`: "=moonring/..." for the host's own scripts, "@path" for a user's. Closes what the
  // script opened.
  ScriptError Run(const std::string& path, const std::string& chunk,
                  const std::vector<std::string>& arguments);
  ScriptError RunText(const std::string& text, const std::string& chunk,
                      const std::vector<std::string>& arguments);
  // Calls a global function that a user's script defined. `json`: its argument, "" for none;
  // `result`: JSON of what it returns first.
  ScriptError Call(const std::string& function, const std::string& json, std::string& result);
  // Runs `body` as part of what another state runs: under this one's limits, by this deadline;
  // whether that is cancelled is looked at within alone. What `body` throws is its error.
  ScriptError Do(Limits::Clock::time_point deadline, const std::function<void(lua_State*)>& body);

  lua_State* state() { return state_.get(); }

 private:
  // Runs `body` where a Lua error, memory that is out among them, ends nothing but it.
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

// A confinement in which Moonring itself works: what it carries can be read too, and what the
// kernel says of this machine's memory.
absl::StatusOr<std::shared_ptr<base::Confinement>> ConfineTo(base::ConfinementOptions options,
                                                             const Assets& assets);

// Whether what runs was cancelled and ends at once.
bool IsCancelled(const Host& host);

// Raises the error by which a run that was cancelled ends, where it was.
void EndIfCancelled(const Host& host);

// The host behind a state (for bindings).
Host& HostOf(lua_State* L);

// Exit code of an uncaught error, by the status code inside its text (lua/binding/guard.h) and
// whether the first step had begun.
int ExitCode(const std::string& message, bool started);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_H_
