#ifndef MOONRING_LUA_OPTIONS_H_
#define MOONRING_LUA_OPTIONS_H_

// The one table of named options that a function takes. Each key is asked for once; Finish() refuses the keys that
// nobody asked for, with the nearest name:
//
//   Bind<[](Options options) {
//     const int64_t sp = options.Get<int64_t>("sp", 1);
//     const std::string path = options.Require<std::string>("path");
//     options.Finish();
//   }>
//
// Errors are Status exceptions (INVALID_ARGUMENT) that name the key, what came and what was wanted.

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <lua.hpp>

#include "lua/stack.h"

namespace moonring::lua {

class Options {
 public:
  Options(lua_State* L, int index);  // nil and none are an empty table

  template <typename T>
  std::optional<T> Find(const char* key) {
    if (!PushField(key)) return std::nullopt;
    CheckType(key, LuaType<T>());
    std::optional<T> value = Value<T>::Read(L_, lua_gettop(L_));
    lua_pop(L_, 1);
    return value;
  }
  template <typename T>
  T Get(const char* key, T absent) {
    return Find<T>(key).value_or(std::move(absent));
  }
  template <typename T>
  T Require(const char* key) {
    std::optional<T> value = Find<T>(key);
    if (!value.has_value()) Missing(key);
    return *std::move(value);
  }
  void Finish();

 private:
  template <typename T>
  static constexpr int LuaType() {
    if constexpr (std::is_same_v<T, bool>) return LUA_TBOOLEAN;
    if constexpr (std::is_arithmetic_v<T>) return LUA_TNUMBER;
    if constexpr (std::is_same_v<T, std::string>) return LUA_TSTRING;
    return LUA_TNONE;  // Value<T>::Read says it itself
  }
  bool PushField(const char* key);                // false, and nothing pushed, where absent
  void CheckType(const char* key, int wanted);    // of the value on top
  [[noreturn]] void Missing(const char* key);

  lua_State* L_;
  int index_;
  std::vector<std::string> known_;
};

template <>
struct Value<Options> {
  static Options Read(lua_State* L, int index) { return Options(L, index); }
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPTIONS_H_
