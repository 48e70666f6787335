#include "lua/binding/guard.h"

#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include <c10/util/Exception.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/memory/memory_account.h"
#include "base/status/torch_status.h"
#include "lua/binding/error_value.h"
#include "lua/binding/native_stack.h"
#include "lua/binding/value_error.h"

namespace moonring::lua {
namespace {

const char kNames = 0;  // its address is the registry key of the table function -> name

std::string NameOf(lua_State* L, lua_CFunction function) {
  lua_pushlightuserdata(L, const_cast<char*>(&kNames));
  lua_rawget(L, LUA_REGISTRYINDEX);
  std::string name;
  if (lua_istable(L, -1)) {
    lua_pushlightuserdata(L, reinterpret_cast<void*>(function));
    lua_rawget(L, -2);
    if (const char* text = lua_tostring(L, -1)) name = absl::StrCat(text, ": ");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return name;
}

// The native function that is running, and the number of its arguments, without a method's object.
struct RunningCall {
  std::string name;
  bool is_method = false;
  int arguments = 0;
};

RunningCall Running(lua_State* L) {
  RunningCall call;
  int top = lua_gettop(L);
  while (top > 0 && lua_isnil(L, top)) --top;
  lua_Debug frame;
  if (lua_getstack(L, 0, &frame) && lua_getinfo(L, "f", &frame)) {
    call.name = NameOf(L, lua_tocfunction(L, -1));
    lua_pop(L, 1);
  }
  call.is_method = absl::StrContains(absl::StripSuffix(call.name, ": "), ":");
  call.arguments = top - call.is_method;
  return call;
}

// Throws the error for wrong arguments. The guard adds the function's name if a script is running;
// otherwise it is added here.
[[noreturn]] void RefuseCall(lua_State* L, const RunningCall& call, absl::string_view wanted) {
  throw base::StatusError(absl::InvalidArgumentError(
      absl::StrCat(ScriptPlace(L).empty() ? call.name : "", "expected ", wanted, ", got ",
                   call.arguments, call.arguments == 1 ? " argument" : " arguments")));
}

// The message for a wrong value: which argument it is, and what is wrong. `given`: how many
// arguments the function got, with a method's object. A value that the function made itself, such
// as a callback's result, is none of them.
std::string WordsOfWrongValue(lua_State* L, lua_CFunction function, int given,
                              const ValueError& error) {
  const bool is_method = absl::StrContains(absl::StripSuffix(NameOf(L, function), ": "), ":");
  const int index = error.index();
  if (index < 1 || (index > given && !error.absent())) return error.what();
  if (is_method && index == 1) {
    return absl::StrCat("the object before the colon: ", error.what(),
                        " (methods are called as x:f(), not x.f())");
  }
  return absl::StrCat("argument ", index - is_method, ": ", error.what());
}

// The status of an exception. LibTorch reports wrong shapes and the like by a plain c10::Error,
// which StatusOfException cannot tell from other failures. Here the caller is a script, so it is
// the script's argument that is wrong, unless LibTorch says that it is its own fault or a device's.
absl::Status StatusForScript(const std::exception& exception) {
  absl::Status status = base::StatusOfException(exception);
  const bool plain = status.code() == absl::StatusCode::kInternal &&
                     typeid(exception) == typeid(c10::Error);
  if (!plain) return status;
  for (const absl::string_view words : {"INTERNAL ASSERT", "CUDA", "cuda", "CUBLAS", "CUDNN"}) {
    if (absl::StrContains(status.message(), words)) return status;
  }
  return absl::InvalidArgumentError(status.message());
}

int Guarded(lua_State* L, lua_CFunction function) {
  absl::Status status;
  const int given = lua_gettop(L);
  try {
    if (!NativeStackIsShort()) return function(L);
    status = absl::ResourceExhaustedError("stack overflow: Lua and C call each other too deep");
  } catch (const ValueError& error) {
    status = absl::InvalidArgumentError(WordsOfWrongValue(L, function, given, error));
  } catch (const std::exception& exception) {
    status = StatusForScript(exception);
    if (status.message() == base::kOutOfMemory)
      status = base::OutOfMemoryStatus(base::OutOfMemory("data and libraries", 0));
  }
  {
    // Script line and function name help authors of scripts. Moonring's own commands show the
    // message alone.
    ErrorValue error = ErrorOfStatus(status);
    error.place = ScriptPlace(L);
    if (!error.place.empty()) absl::StrAppend(&error.place, NameOf(L, function));
    error.place = std::string(absl::StripSuffix(error.place, ": "));
    PushError(L, error);
  }
  status = absl::OkStatus();  // no object that owns memory is alive at the longjmp
  return lua_error(L);
}

}  // namespace

std::string ScriptPlace(lua_State* L) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline > 0 &&
        std::strncmp(frame.source, kOwnChunk, std::strlen(kOwnChunk)) != 0) {
      return absl::StrCat(frame.short_src, ":", frame.currentline, ": ");
    }
  }
  return "";
}

void InstallGuard(lua_State* L) {
  lua_pushlightuserdata(L, reinterpret_cast<void*>(&Guarded));
  const bool installed = luaJIT_setmode(L, -1, LUAJIT_MODE_WRAPCFUNC | LUAJIT_MODE_ON) != 0;
  lua_pop(L, 1);
  if (!installed)
    throw std::runtime_error("this LuaJIT cannot guard C functions against C++ exceptions");
  lua_pushlightuserdata(L, const_cast<char*>(&kNames));
  lua_newtable(L);
  lua_rawset(L, LUA_REGISTRYINDEX);
  InstallErrors(L);
}

void RefuseArguments(lua_State* L, std::vector<std::string> wanted) {
  const RunningCall call = Running(L);
  if (call.is_method && !wanted.empty()) wanted.erase(wanted.begin());
  RefuseCall(L, call,
             wanted.empty() ? "no arguments" : absl::StrCat("(", absl::StrJoin(wanted, ", "), ")"));
}

void RefuseArguments(lua_State* L, int most) {
  const RunningCall call = Running(L);
  most -= call.is_method;
  RefuseCall(L, call, most == 0 ? "no arguments" : absl::StrCat("at most ", most));
}

void NameFunction(lua_State* L, lua_CFunction function, const char* name) {
  lua_pushlightuserdata(L, const_cast<char*>(&kNames));
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (!lua_istable(L, -1)) throw std::logic_error("NameFunction before InstallGuard");
  lua_pushlightuserdata(L, reinterpret_cast<void*>(function));
  lua_pushstring(L, name);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

}  // namespace moonring::lua
