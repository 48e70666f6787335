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

#include "lua/assets.h"
#include "trainer/memory_watch.h"

namespace moonring::lua {

// What the host tells its scripts, and what they tell it.
struct Host {
  Assets assets;
  std::vector<std::string> command;  // how this process was called, to start ranks in the same way
  std::string device = "auto";       // cpu | cuda | auto
  int ranks = 0;                     // -n, 0 where it was not given
  bool sandbox = false;              // a user's script sees the globals of lua/moonring/sandbox.lua alone
  // What the host closes when the script has ended, the last opened first: never the collector, whose order nobody knows.
  // Each gets the script's error, "" where there was none.
  std::vector<std::function<void(const std::string& error)>> closers;
  trainer::MemorySample memory_at_start;  // once the bindings are there, before any script
  bool started = false;              // set by the script once its first step begins: what fails later exits with 1, not 2
};

struct ScriptError {
  int exit_code = 0;  // 0: the script ended well
  std::string message;
};

class Vm {
 public:
  explicit Vm(Host host);
  Vm(const Vm&) = delete;
  Vm& operator=(const Vm&) = delete;

  // `chunk`: "=moonring/..." for the host's own scripts, "@path" for a user's. Closes what the script opened.
  ScriptError Run(const std::string& path, const std::string& chunk, const std::vector<std::string>& arguments);

  lua_State* state() { return state_.get(); }

 private:
  ScriptError RunScript(const std::string& path, const std::string& chunk, const std::vector<std::string>& arguments);
  struct CloseState {
    void operator()(lua_State* L) const { lua_close(L); }
  };
  std::unique_ptr<Host> host_;
  std::unique_ptr<lua_State, CloseState> state_;
};

// The host behind a state (for bindings).
Host& HostOf(lua_State* L);

// Exit code of an uncaught error, by the status code inside its text (lua/guard.h) and whether the first step had begun.
int ExitCode(const std::string& message, bool started);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_H_
