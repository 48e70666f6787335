#ifndef MOONRING_LUA_BINDING_OPTIONS_H_
#define MOONRING_LUA_BINDING_OPTIONS_H_

// The table of named options that a function accepts. Each key is read once. Finish() refuses all
// keys that were not read, and suggests the nearest known name:
//
//   Bind<[](Options options) {
//     const int64_t sp = options.Get<int64_t>("sp", 1);
//     const std::string path = options.Require<std::string>("path");
//     options.Finish();
//   }>
//
// Errors are Status exceptions (INVALID_ARGUMENT) that contain the key, the value's type and the
// expected type. If Value<T> has a kLuaType, only values of that Lua type are accepted.

#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <lua.hpp>

#include "lua/binding/class.h"
#include "lua/binding/stack.h"
#include "lua/binding/value_error.h"

namespace moonring::lua {

class Options {
 public:
  Options(lua_State* L, int index);  // a nil or absent argument counts as an empty table

  template <typename T>
  std::optional<T> Find(const char* key) {
    if (!PushField(key)) return std::nullopt;
    CheckType(key, LuaType<T>());
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      CheckInteger(key, static_cast<double>(std::numeric_limits<T>::min()),
                   static_cast<double>(std::numeric_limits<T>::max()));
    }
    if constexpr (IsHandle<T>::value)
      CheckHandle(key, Class<typename IsHandle<T>::Object>::IsOpen(L_, lua_gettop(L_)),
                  Class<typename IsHandle<T>::Object>::Name(L_));
    try {
      std::optional<T> value = Value<T>::Read(L_, lua_gettop(L_));
      lua_pop(L_, 1);
      return value;
    } catch (const ValueError& error) {
      Refuse(key, error);
    }
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
  [[noreturn]] void Missing(const char* key);  // the error of Require
  // Leaves the option's value on the stack, for values that exist only in Lua, such as functions.
  // Returns its stack index; 0 if the option is absent.
  int Push(const char* key) { return PushField(key) ? lua_gettop(L_) : 0; }
  void Finish();

 private:
  template <typename T>
  struct IsList : std::false_type {};
  template <typename T>
  struct IsList<std::vector<T>> : std::true_type {};
  template <typename T>
  struct IsList<std::map<std::string, T>> : std::true_type {};
  template <typename T>
  struct IsHandle : std::false_type {};
  template <typename T>
  struct IsHandle<std::shared_ptr<T>> : std::true_type {
    using Object = std::remove_const_t<T>;
  };
  template <typename T>
  static constexpr int LuaType() {
    if constexpr (requires { Value<T>::kLuaType; }) return Value<T>::kLuaType;
    if constexpr (std::is_same_v<T, bool>) return LUA_TBOOLEAN;
    if constexpr (std::is_arithmetic_v<T>) return LUA_TNUMBER;
    if constexpr (std::is_same_v<T, std::string>) return LUA_TSTRING;
    if constexpr (IsList<T>::value) return LUA_TTABLE;
    return LUA_TNONE;
  }
  bool PushField(const char* key);  // if absent, pushes nothing and returns false
  [[noreturn]] static void Refuse(const char* key, const ValueError& error);
  // The following functions check the value on top of the stack.
  void CheckType(const char* key, int wanted);
  void CheckInteger(const char* key, double least, double most);
  void CheckHandle(const char* key, bool open, const std::string& wanted);

  lua_State* L_;
  int index_;
  std::vector<std::string> known_;
};

template <>
struct Value<Options> {
  static Options Read(lua_State* L, int index) { return Options(L, index); }
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_OPTIONS_H_
