// Lua bindings for the interactive prompt (lua/moonring/prompt): reading lines, protected
// evaluation, the functions of native objects, and communication with other ranks.

#include <lua.hpp>

#include <new>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/memory/memory_account.h"
#include "base/status/torch_status.h"
#include "lua/binding/error_value.h"
#include "lua/binding/guard.h"
#include "lua/binding/stack.h"
#include "lua/bindings/bindings.h"
#include "lua/host/interrupt.h"
#include "lua/host/prompt.h"
#include "lua/vm/limits.h"
#include "lua/vm/script_error.h"
#include "lua/vm/vm.h"

namespace moonring::lua {
namespace {

Prompt& PromptOf(lua_State* L) {
  Prompt* const prompt = HostOf(L).prompt.get();
  if (prompt == nullptr)
    throw base::StatusError(absl::FailedPreconditionError("no prompt is open: moonring repl"));
  return *prompt;
}

PromptRanks& RanksOf(lua_State* L) {
  PromptRanks* const ranks = PromptOf(L).ranks.get();
  if (ranks == nullptr)
    throw base::StatusError(absl::FailedPreconditionError("this prompt has one rank"));
  return *ranks;
}

// Message handler for a line of the prompt; its upvalue is the string that receives the call stack.
// It runs before the stack is unwound, so it can still read the stack of the error.
int NoteFramesOfLine(lua_State* L) {
  auto& frames = *static_cast<std::string*>(lua_touserdata(L, lua_upvalueindex(1)));
  try {
    frames = ScriptFrames(L);
  } catch (const std::bad_alloc&) {  // the error itself is more important
    frames.clear();
  }
  return 1;
}

// The Lua function evaluate(fn, ...): returns true and the results of fn; or false, the message and
// the call stack.
int Evaluate(lua_State* L) {
  CheckType(L, 1, LUA_TFUNCTION);
  std::string frames;
  ErrorValue error;
  lua_pushlightuserdata(L, &frames);
  lua_pushcclosure(L, &NoteFramesOfLine, 1);
  lua_insert(L, 1);
  BeginInterruptible();
  const int ended = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1);
  if (ended == LUA_ERRMEM) error.message = base::OutOfMemory("scripts", 0);
  if (ended != 0 && ended != LUA_ERRMEM) error = ReadError(L, -1);
  if (EndInterruptible()) CountOn(L, HostOf(L).limits);
  if (ended == 0) {
    lua_pushboolean(L, 1);
    lua_replace(L, 1);  // replaces the handler
    return lua_gettop(L);
  }
  if (error.code == absl::StatusCode::kCancelled) error = {.message = "interrupted"};
  if (!AddsToMessage(frames, error, 1)) frames.clear();
  lua_pushboolean(L, 0);
  Value<std::string>::Push(L, error.Text());
  Value<std::string>::Push(L, frames);
  return 3;
}

// A request for completions, which a Lua function answers. A Lua error must not leave this call,
// because it would unwind stack frames of libedit.
struct Asked {
  int function;  // registry reference
  const std::string& line;
  size_t cursor;
  Offers offers;
};

std::vector<std::string> TextsAt(lua_State* L, int index) {
  std::vector<std::string> texts;
  for (size_t i = 1; lua_istable(L, index) && i <= lua_objlen(L, index); ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    if (const char* text = lua_tostring(L, -1)) texts.emplace_back(text);
    lua_pop(L, 1);
  }
  return texts;
}

int AskForOffers(lua_State* L) {
  auto& asked = *static_cast<Asked*>(lua_touserdata(L, 1));
  lua_rawgeti(L, LUA_REGISTRYINDEX, asked.function);
  lua_pushlstring(L, asked.line.data(), asked.line.size());
  lua_pushnumber(L, static_cast<double>(asked.cursor));
  lua_call(L, 2, 3);
  asked.offers.begin = static_cast<size_t>(lua_tonumber(L, 2));
  asked.offers.words = TextsAt(L, 3);
  asked.offers.shown = TextsAt(L, 4);
  return 0;
}

// The Lua function read_line(prompt, complete): returns the line or nil, and whether Ctrl-C ended
// it.
int ReadLine(lua_State* L) {
  const std::string text = Value<std::string>::Read(L, 1);
  CheckType(L, 2, LUA_TFUNCTION);
  const LineReader& read = PromptOf(L).read_line;
  if (!read) throw base::StatusError(absl::FailedPreconditionError("lines come from no terminal"));
  lua_settop(L, 2);
  const int function = luaL_ref(L, LUA_REGISTRYINDEX);
  const TypedLine typed = read(text, [&](const std::string& line, size_t cursor) {
    Asked asked{function, line, cursor, {}};
    if (lua_cpcall(L, &AskForOffers, &asked) != 0) lua_pop(L, 1), asked.offers = {};
    return asked.offers;
  });
  luaL_unref(L, LUA_REGISTRYINDEX, function);
  if (typed.kind == TypedLine::Kind::kLine) {
    Value<std::string>::Push(L, typed.text);
  } else {
    lua_pushnil(L);
  }
  lua_pushboolean(L, typed.kind == TypedLine::Kind::kInterrupted);
  return 2;
}

// Pushes a table of the metatables of all native classes, by class name (lua/binding/class.h).
void PushClasses(lua_State* L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "moonring.classes");
  if (!lua_istable(L, -1)) lua_pop(L, 1), lua_newtable(L);
}

// The Lua function class_of(value): returns the class name of a native object; "" for another
// value.
int ClassOf(lua_State* L) {
  if (lua_isnone(L, 1)) RefuseValue(L, 1, "value");
  if (lua_type(L, 1) != LUA_TUSERDATA || lua_getmetatable(L, 1) == 0) {
    lua_pushliteral(L, "");
    return 1;
  }
  PushClasses(L);
  for (lua_pushnil(L); lua_next(L, -2) != 0; lua_pop(L, 1)) {
    if (lua_rawequal(L, -1, 2) == 0) continue;
    lua_pop(L, 1);
    return 1;  // the name
  }
  lua_pushliteral(L, "");
  return 1;
}

// The Lua function methods(class): returns the functions of a native class, by name.
Pushed Methods(lua_State* L, std::string name) {
  PushClasses(L);
  lua_getfield(L, -1, name.c_str());
  lua_newtable(L);
  if (!lua_istable(L, -2)) return {1};
  for (lua_pushnil(L); lua_next(L, -3) != 0; lua_pop(L, 1)) {
    const char* const key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "__";
    if (absl::StartsWith(key, "__") || !lua_isfunction(L, -1)) continue;
    lua_pushvalue(L, -1);
    lua_setfield(L, -4, key);
  }
  return {1};
}

// The Lua function place(fn): returns where a Lua function is defined, "=moonring/run/batch" and
// the line; "" for a native function.
int PlaceOf(lua_State* L) {
  CheckType(L, 1, LUA_TFUNCTION);
  lua_Debug about;
  lua_settop(L, 1);
  lua_getinfo(L, ">S", &about);
  lua_pushstring(L, about.linedefined > 0 ? about.source : "");
  lua_pushnumber(L, about.linedefined);
  return 2;
}

}  // namespace

void OpenPromptLibrary(lua_State* L) {
  PushModule(
      L, "moonring.prompt",
      {
          {"is_typed", Bind<[](lua_State* state) -> bool {
             return static_cast<bool>(PromptOf(state).read_line);
           }>},
          {"is_confined", Bind<[](lua_State* state) { return HostOf(state).sandbox; }>},
          {"read_line", BindRaw<&ReadLine, 2>},
          {"evaluate", BindRaw<&Evaluate, kAnyNumber>},
          {"class_of", BindRaw<&ClassOf, 1>},
          {"methods", Bind<&Methods>},
          {"place", BindRaw<&PlaceOf, 1>},
          {"rank", Bind<[](lua_State* state) {
             const auto& ranks = PromptOf(state).ranks;
             return ranks == nullptr ? 0 : ranks->rank();
           }>},
          {"size", Bind<[](lua_State* state) {
             const auto& ranks = PromptOf(state).ranks;
             return ranks == nullptr ? 1 : ranks->size();
           }>},
          {"send",
           Bind<[](lua_State* state, std::string line) { return RanksOf(state).Send(line); }>},
          {"receive", Bind<[](lua_State* state) {
             const auto line = RanksOf(state).Receive();
             return line.ok() ? std::optional<std::string>(*line) : std::nullopt;
           }>},
          {"leave", Bind<[](lua_State* state) { RanksOf(state).Leave(); }>},
          {"report", Bind<[](lua_State* state, std::string outcome) {
             return RanksOf(state).Report(outcome);
           }>},
          {"gather", Bind<[](lua_State* state) { return RanksOf(state).Gather(); }>},
      });
}

}  // namespace moonring::lua
