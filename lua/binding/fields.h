#ifndef MOONRING_LUA_BINDING_FIELDS_H_
#define MOONRING_LUA_BINDING_FIELDS_H_

// Options structs with a list of fields (base/text/fields.h), read from an options table and
// described for Lua:
//
//   Bind<[](Options options) {
//     trainer::LionOptions lion;
//     ReadFields(options, lion);
//     options.Finish();
//   }>
//
// The Lua type of a field follows from its member's type; that of an enum is one of its words.
// Errors of ReadFields: those of Options (options.h), and ValueError for an unknown word, which
// lists the words.

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <lua.hpp>

#include "base/text/fields.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"

namespace moonring::lua {
namespace internal {

template <typename T>
std::optional<T> FindField(Options& options, const char* name) {
  if constexpr (IsOptional<T>::value) {
    auto given = FindField<typename IsOptional<T>::Inner>(options, name);
    return given.has_value() ? std::optional<T>(std::move(given)) : std::nullopt;
  } else if constexpr (std::is_enum_v<T>) {
    const std::optional<std::string> word = options.Find<std::string>(name);
    if (!word.has_value()) return std::nullopt;
    const std::optional<T> value = base::ValueOfWord<T>(*word);
    TORCH_CHECK_VALUE(value.has_value(), name, ": expected ", base::ListOfWords<T>(), ", got '",
                      *word, "'");
    return value;
  } else {
    return options.Find<T>(name);
  }
}

// The type in an annotation: "number", "string[]", "\"top\" | \"multinomial\"".
template <typename T>
std::string AnnotatedType() {
  if constexpr (IsOptional<T>::value) {
    return AnnotatedType<typename IsOptional<T>::Inner>();
  } else if constexpr (std::is_enum_v<T>) {
    std::string types;
    for (const auto& each : WordsOf(T{}))
      types += (types.empty() ? "\"" : " | \"") + std::string(each.word) + '"';
    return types;
  } else if constexpr (std::is_same_v<T, bool>) {
    return "boolean";
  } else if constexpr (std::is_integral_v<T>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "string";
  } else if constexpr (requires { typename T::mapped_type; }) {
    return "table<string, " + AnnotatedType<typename T::mapped_type>() + ">";
  } else {
    return AnnotatedType<typename T::value_type>() + "[]";
  }
}

// Pushes a field's default; nil if it has none, is a list or a map.
template <typename T>
void PushDefault(lua_State* L, const T& value) {
  if constexpr (std::is_enum_v<T>) {
    Value<std::string>::Push(L, base::WordOfValue(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    Value<T>::Push(L, value);
  } else {
    lua_pushnil(L);
  }
}

}  // namespace internal

// Sets the members of `into` whose options are given; the others keep their values.
template <typename T>
void ReadFields(Options& options, T& into) {
  base::ForEachField(into, [&](const auto& field, auto& value) {
    auto given = internal::FindField<std::remove_reference_t<decltype(value)>>(options, field.name);
    if (given.has_value()) {
      value = *std::move(given);
    } else if (field.required) {
      options.Missing(field.name);
    }
  });
}

// Pushes the list of T's fields, each a table { name, type, default, required, text }.
template <typename T>
void PushFields(lua_State* L) {
  const T defaults{};
  lua_newtable(L);
  base::ForEachField(defaults, [L](const auto& field, const auto& value) {
    using Member = std::remove_cvref_t<decltype(value)>;
    lua_newtable(L);
    Value<std::string>::Push(L, field.name);
    lua_setfield(L, -2, "name");
    Value<std::string>::Push(L, internal::AnnotatedType<Member>());
    lua_setfield(L, -2, "type");
    if (!field.required) {
      internal::PushDefault(L, value);
      lua_setfield(L, -2, "default");
    }
    Value<bool>::Push(L, field.required);
    lua_setfield(L, -2, "required");
    Value<std::string>::Push(L, field.meaning);
    lua_setfield(L, -2, "text");
    lua_rawseti(L, -2, static_cast<int>(lua_objlen(L, -2)) + 1);
  });
}

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDING_FIELDS_H_
