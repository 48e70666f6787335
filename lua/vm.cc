#include "lua/vm.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/memory_account.h"
#include "comm/torch_status.h"
#include "lua/bindings.h"
#include "lua/guard.h"

namespace moonring::lua {
namespace {

const char kHost = 0;  // its address is the registry key

struct Library {
  const char* name;
  void (*open)(lua_State*);
};
constexpr Library kLibraries[] = {
    {"moonring.native.tensor", &OpenTensor},         {"moonring.native.system", &OpenSystem},   {"moonring.native.comm", &OpenComm},
    {"moonring.native.attention", &OpenAttention},   {"moonring.native.model", &OpenModel},     {"moonring.native.data", &OpenData},
    {"moonring.native.objectives", &OpenObjectives}, {"moonring.native.trainer", &OpenTrainer}, {"moonring.native.safetensors", &OpenSafetensors},
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw comm::StatusError(absl::NotFoundError(absl::StrCat("cannot read ", path)));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// package.loaders entry: "moonring" and "moonring.x" from the host's own files.
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
  const std::string chunk = absl::StrCat(kOwnChunk, file);
  if (luaL_loadbuffer(L, text.data(), text.size(), chunk.c_str()) != 0) return lua_error(L);
  return 1;
}

void AddLoader(lua_State* L) {
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  for (int i = static_cast<int>(lua_objlen(L, -1)); i >= 2; --i) {  // after package.preload, before the paths
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
  for (const Library& library : kLibraries) {
    library.open(L);
    lua_setfield(L, -2, library.name);
  }
  lua_pop(L, 2);
}

// The words of the error object on top: a script may raise a table of its own.
std::string WordsOf(lua_State* L) {
  if (const char* text = lua_tostring(L, -1)) return text;
  const std::string type = luaL_typename(L, -1);
  lua_getglobal(L, "tostring");
  lua_pushvalue(L, -2);
  const bool printed = luaL_getmetafield(L, -1, "__tostring") != 0;
  if (printed) lua_pop(L, 1);
  if (printed && lua_pcall(L, 1, 1, 0) == 0 && lua_tostring(L, -1) != nullptr) return lua_tostring(L, -1);
  return absl::StrCat("the script raised a ", type);
}

int Traceback(lua_State* L) {
  if (lua_type(L, 1) == LUA_TSTRING && std::getenv("MOONRING_TRACEBACK") != nullptr) {
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
  }
  return 1;
}

}  // namespace

Host& HostOf(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kHost));
  lua_rawget(L, LUA_REGISTRYINDEX);
  auto* host = static_cast<Host*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *host;
}

int ExitCode(const std::string& message, bool started) {
  if (absl::StrContains(message, "out of memory")) return started ? 1 : 2;
  for (const absl::StatusCode later : {absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kAborted,
                                       absl::StatusCode::kAlreadyExists,  // a port
                                       absl::StatusCode::kInternal, absl::StatusCode::kResourceExhausted}) {
    if (absl::StrContains(message, absl::StrCat(absl::StatusCodeToString(later), ": "))) return 1;
  }
  if (started) return 1;
  for (const absl::StatusCode known : {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound, absl::StatusCode::kFailedPrecondition,
                                       absl::StatusCode::kUnimplemented, absl::StatusCode::kOutOfRange, absl::StatusCode::kPermissionDenied,
                                       absl::StatusCode::kDataLoss}) {
    if (absl::StrContains(message, absl::StrCat(absl::StatusCodeToString(known), ": "))) return 2;
  }
  return 1;
}

Vm::Vm(Host host) : host_(std::make_unique<Host>(std::move(host))), state_(luaL_newstate()) {
  if (state_ == nullptr) throw std::runtime_error("cannot make a Lua state: out of memory");
  lua_State* L = state_.get();
  luaL_openlibs(L);
  lua_pushlightuserdata(L, const_cast<char*>(&kHost));
  lua_pushlightuserdata(L, host_.get());
  lua_rawset(L, LUA_REGISTRYINDEX);
  InstallGuard(L);
  OpenLibraries(L);
  AddLoader(L);
}

ScriptError Vm::Run(const std::string& path, const std::string& chunk, const std::vector<std::string>& arguments) {
  const ScriptError error = RunScript(path, chunk, arguments);
  for (; !host_->closers.empty(); host_->closers.pop_back()) host_->closers.back()(error.message);
  return error;
}

ScriptError Vm::RunScript(const std::string& path, const std::string& chunk, const std::vector<std::string>& arguments) {
  lua_State* L = state_.get();
  lua_createtable(L, static_cast<int>(arguments.size()), 1);
  lua_pushstring(L, path.c_str());
  lua_rawseti(L, -2, 0);
  for (size_t i = 0; i < arguments.size(); ++i) {
    lua_pushlstring(L, arguments[i].data(), arguments[i].size());
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  lua_setglobal(L, "arg");

  std::string text;
  if (const absl::Status read = comm::TryTorch([&] { text = ReadFile(path); }); !read.ok()) return {2, std::string(read.message())};
  if (!text.empty() && text[0] == '#') text.insert(0, "--");  // a first line for the shell
  lua_pushcfunction(L, &Traceback);
  const bool sandbox = host_->sandbox && !absl::StartsWith(chunk, kOwnChunk);
  if (luaL_loadbufferx(L, text.data(), text.size(), chunk.c_str(), sandbox ? "t" : nullptr) != 0) return {2, lua_tostring(L, -1)};
  if (sandbox) {
    if (luaL_loadstring(L, "return require('moonring.sandbox').globals()") != 0 || lua_pcall(L, 0, 1, 0) != 0) return {1, lua_tostring(L, -1)};
    lua_setfenv(L, -2);
  }
  for (const std::string& argument : arguments) lua_pushlstring(L, argument.data(), argument.size());
  const int ended = lua_pcall(L, static_cast<int>(arguments.size()), 0, 1);
  if (ended == 0) {
    lua_settop(L, 0);
    return {};
  }
  const std::string message = ended == LUA_ERRMEM ? comm::OutOfMemory("scripts", 0) : WordsOf(L);
  lua_settop(L, 0);
  return {ExitCode(message, host_->started), message};
}

void PushModule(lua_State* L, const char* module, std::initializer_list<luaL_Reg> functions) {
  lua_newtable(L);
  for (const luaL_Reg& function : functions) {
    NameFunction(L, function.func, absl::StrCat(module, ".", function.name).c_str());
    lua_pushcfunction(L, function.func);
    lua_setfield(L, -2, function.name);
  }
}

}  // namespace moonring::lua
