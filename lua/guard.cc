#include "lua/guard.h"

#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "comm/memory_account.h"
#include "comm/torch_status.h"
#include "lua/native_stack.h"

namespace moonring::lua {
namespace {

const char kNames = 0;  // its address is the registry key of the table function -> name

// "script.lua:12: " for the innermost Lua function that is not Moonring's own; "" where there is none.
std::string UserPlace(lua_State* L) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame); ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline > 0 && std::strncmp(frame.source, kOwnChunk, std::strlen(kOwnChunk)) != 0) {
      return absl::StrCat(frame.short_src, ":", frame.currentline, ": ");
    }
  }
  return "";
}

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

int Guarded(lua_State* L, lua_CFunction function) {
  absl::Status status;
  try {
    if (!NativeStackIsShort()) return function(L);
    status = absl::ResourceExhaustedError("stack overflow: Lua and C call each other too deep");
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError(comm::OutOfMemory("data and libraries", 0));
  } catch (const std::exception& exception) {
    status = comm::StatusOfException(exception);
  }
  {
    // The place and the function are for who wrote the script; a command of the host's own says the message alone.
    const std::string place = UserPlace(L);
    const std::string text =
        absl::StrCat(place, place.empty() ? "" : NameOf(L, function), absl::StatusCodeToString(status.code()), ": ", status.message());
    lua_pushlstring(L, text.data(), text.size());
  }
  status = absl::OkStatus();  // nothing that owns memory is alive at the jump
  return lua_error(L);
}

}  // namespace

void InstallGuard(lua_State* L) {
  lua_pushlightuserdata(L, reinterpret_cast<void*>(&Guarded));
  const bool installed = luaJIT_setmode(L, -1, LUAJIT_MODE_WRAPCFUNC | LUAJIT_MODE_ON) != 0;
  lua_pop(L, 1);
  if (!installed) throw std::runtime_error("this LuaJIT cannot guard C functions against C++ exceptions");
  lua_pushlightuserdata(L, const_cast<char*>(&kNames));
  lua_newtable(L);
  lua_rawset(L, LUA_REGISTRYINDEX);
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
