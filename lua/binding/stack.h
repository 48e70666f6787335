#ifndef MOONRING_LUA_BINDING_STACK_H_
#define MOONRING_LUA_BINDING_STACK_H_

// Typed values between Lua's stack and C++.
//
//   Value<T>::Read(L, index)   the argument at `index` as a T, or a ValueError with the expected
//                              and the actual type
//   Value<T>::Push(L, value)   pushes it; returns how many values it pushed
//
// This file covers scalars, strings, std::optional, std::vector (a Lua list) and std::tuple
// (several results); class.h adds native classes. absl::Status pushes nothing and StatusOr its
// value; both throw if they are an error.
//
// Functions that scripts call are of type Bound, made by Bind or BindRaw. A Bound refuses surplus
// arguments, because an ignored argument is usually a mistake (x:sum(1) would silently sum over
// everything). A trailing nil is not counted as an argument.

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <lua.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "lua/binding/guard.h"
#include "lua/binding/value_error.h"

namespace moonring::lua {

// Whether a number is an integer in the range where a double represents every integer exactly.
inline bool IsWhole(double number) {
  return number == std::floor(number) && std::fabs(number) <= 9007199254740992.0;
}

template <typename T, typename = void>
struct Value;

template <typename T>
class Class;  // class.h: a native class; as a parameter T& it is the object behind a handle

template <typename T>
struct Value<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static T Read(lua_State* L, int index) {
    const double number = lua_tonumber(L, index);
    if (!lua_isnumber(L, index) || !IsWhole(number)) RefuseValue(L, index, "integer");
    if (number < static_cast<double>(std::numeric_limits<T>::min()) ||
        number > static_cast<double>(std::numeric_limits<T>::max())) {
      RefuseValue(L, index, "integer in range");
    }
    return static_cast<T>(number);
  }
  static int Push(lua_State* L, T value) {
    return lua_pushnumber(L, static_cast<double>(value)), 1;
  }
};

template <>
struct Value<double> {
  static double Read(lua_State* L, int index) {
    if (!lua_isnumber(L, index)) RefuseValue(L, index, "number");
    return lua_tonumber(L, index);
  }
  static int Push(lua_State* L, double value) { return lua_pushnumber(L, value), 1; }
};

template <>
struct Value<bool> {
  static bool Read(lua_State* L, int index) {
    CheckType(L, index, LUA_TBOOLEAN);
    return lua_toboolean(L, index) != 0;
  }
  static int Push(lua_State* L, bool value) { return lua_pushboolean(L, value), 1; }
};

template <>
struct Value<std::string> {
  static std::string Read(lua_State* L, int index) {
    CheckType(L, index, LUA_TSTRING);
    size_t length = 0;
    const char* text = lua_tolstring(L, index, &length);
    return std::string(text, length);
  }
  static int Push(lua_State* L, const std::string& value) {
    return lua_pushlstring(L, value.data(), value.size()), 1;
  }
};

template <typename T>
struct Value<std::optional<T>> {
  static std::optional<T> Read(lua_State* L, int index) {
    if (lua_isnoneornil(L, index)) return std::nullopt;
    return Value<T>::Read(L, index);
  }
  static int Push(lua_State* L, const std::optional<T>& value) {
    if (!value.has_value()) return lua_pushnil(L), 1;
    return Value<T>::Push(L, *value);
  }
};

namespace internal {

// Calls `read`, which appends the elements of a list to `values`. An error about an element says
// which one it is.
template <typename Values, typename Read>
void InElement(int index, const Values& values, const Read& read) {
  try {
    read();
  } catch (const ValueError& error) {
    throw ValueError(index, absl::StrCat("element ", values.size() + 1, ": ", error.what()));
  }
}

}  // namespace internal

template <typename T>
struct Value<std::vector<T>> {
  static std::vector<T> Read(lua_State* L, int index) {
    const size_t size = ListSize(L, index);
    std::vector<T> values;
    values.reserve(size);
    internal::InElement(index, values, [&] {
      for (size_t i = 1; i <= size; ++i) {
        lua_rawgeti(L, index, static_cast<int>(i));
        values.push_back(Value<T>::Read(L, lua_gettop(L)));
        lua_pop(L, 1);
      }
    });
    return values;
  }
  static int Push(lua_State* L, const std::vector<T>& values) {
    lua_createtable(L, static_cast<int>(values.size()), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      Value<T>::Push(L, values[i]);
      lua_rawseti(L, -2, static_cast<int>(i + 1));
    }
    return 1;
  }
};

// Reads and pushes a Lua table with string keys as a std::map.
template <typename T>
struct Value<std::map<std::string, T>> {
  static std::map<std::string, T> Read(lua_State* L, int index) {
    CheckType(L, index, LUA_TTABLE);
    std::map<std::string, T> values;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
      values.emplace(Value<std::string>::Read(L, lua_gettop(L) - 1),
                     Value<T>::Read(L, lua_gettop(L)));
    }
    return values;
  }
  static int Push(lua_State* L, const std::map<std::string, T>& values) {
    lua_createtable(L, 0, static_cast<int>(values.size()));
    for (const auto& [name, value] : values) {
      Value<T>::Push(L, value);
      lua_setfield(L, -2, name.c_str());
    }
    return 1;
  }
};

template <typename... T>
struct Value<std::tuple<T...>> {
  static int Push(lua_State* L, const std::tuple<T...>& values) {
    return std::apply([L](const T&... each) { return (Value<T>::Push(L, each) + ... + 0); },
                      values);
  }
};

template <>
struct Value<absl::Status> {
  static int Push(lua_State*, const absl::Status& status) { return base::ThrowIfError(status), 0; }
};

template <typename T>
struct Value<absl::StatusOr<T>> {
  static int Push(lua_State* L, absl::StatusOr<T> result) {
    return Value<T>::Push(L, base::ValueOrThrow(std::move(result)));
  }
};

// The result type of a function that has already pushed its results on the Lua stack; `count`: how
// many.
struct Pushed {
  int count;
};

template <>
struct Value<Pushed> {
  static int Push(lua_State*, Pushed pushed) { return pushed.count; }
};

namespace internal {

template <typename T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {
  using Inner = T;
};
template <typename T>
struct IsShared : std::false_type {};
template <typename T>
struct IsShared<std::shared_ptr<T>> : std::true_type {
  using Inner = T;
};

// Keeps the object behind a handle alive during a call, because a callback, or a metamethod of an
// options table, may close the handle meanwhile.
template <typename T>
struct Held {
  std::shared_ptr<T> object;
  operator T&() const { return *object; }
};

// Reads one argument. A parameter of type lua_State* receives the state and consumes no argument.
template <typename T>
auto Argument(lua_State* L, int& index) {
  if constexpr (std::is_same_v<T, lua_State*>) {
    return L;
  } else if constexpr (std::is_lvalue_reference_v<T> &&
                       !std::is_const_v<std::remove_reference_t<T>>) {
    return Held<Bare<T>>{Class<Bare<T>>::Read(L, index++)};
  } else {
    return Value<Bare<T>>::Read(L, index++);
  }
}

// The word for a parameter's type in the message about surplus arguments.
template <typename T>
std::string WordFor(lua_State* L) {
  using B = Bare<T>;
  if constexpr (IsOptional<B>::value) {
    return WordFor<typename IsOptional<B>::Inner>(L) + "?";
  } else if constexpr (IsShared<B>::value) {
    return Class<std::remove_const_t<typename IsShared<B>::Inner>>::Name(L);
  } else if constexpr (std::is_lvalue_reference_v<T> &&
                       !std::is_const_v<std::remove_reference_t<T>>) {
    return Class<B>::Name(L);
  } else if constexpr (requires { Value<B>::kWord; }) {
    return Value<B>::kWord;
  } else {
    return std::is_same_v<B, bool>          ? "boolean"
           : std::is_integral_v<B>          ? "integer"
           : std::is_floating_point_v<B>    ? "number"
           : std::is_same_v<B, std::string> ? "string"
                                            : "table";
  }
}

template <typename... Args>
std::vector<std::string> WordsFor([[maybe_unused]] lua_State* L) {
  std::vector<std::string> words;
  ((std::is_same_v<Args, lua_State*> ? void() : words.push_back(WordFor<Args>(L))), ...);
  return words;
}

template <typename Result, typename... Args>
int Apply(lua_State* L, Result (*function)(Args...)) {
  constexpr int kMost = (0 + ... + !std::is_same_v<Args, lua_State*>);
  if (HasMoreArguments(L, kMost)) RefuseArguments(L, WordsFor<Args...>(L));
  int index = 1;
  // Braces guarantee that the arguments are read from left to right.
  std::tuple<decltype(Argument<Args>(L, index))...> arguments{Argument<Args>(L, index)...};
  if constexpr (std::is_void_v<Result>) {
    std::apply(function, std::move(arguments));
    return 0;
  } else {
    return Value<Bare<Result>>::Push(L, std::apply(function, std::move(arguments)));
  }
}

}  // namespace internal

// A function that scripts call. The constructor is explicit, so that a plain lua_CFunction, which
// does not check its number of arguments, cannot be registered by accident.
struct Bound {
  constexpr explicit Bound(lua_CFunction of) : function(of) {}
  lua_CFunction function;
};

// A function with its name in a class or a module.
struct NamedFunction {
  const char* name;
  Bound bound;
};

namespace internal {

template <auto F>
int Call(lua_State* L) {
  return Apply(L, +F);
}

template <auto F, int kMost>
int CallRaw(lua_State* L) {
  static_assert(std::is_same_v<decltype(+F), lua_CFunction>);
  if (HasMoreArguments(L, kMost)) RefuseArguments(L, kMost);
  return F(L);
}

}  // namespace internal

// Makes a Bound from a captureless lambda or a function: Bind<[](int64_t a, std::string b) { return
// a; }>.
template <auto F>
inline constexpr Bound Bind{&internal::Call<F>};

// Makes a Bound from a lua_CFunction that reads its arguments itself, at most kMost of them,
// including a method's object.
template <auto F, int kMost>
inline constexpr Bound BindRaw{&internal::CallRaw<F, kMost>};

inline constexpr int kAnyNumber = std::numeric_limits<int>::max();

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_STACK_H_
