// Lua bindings for errors with a status code (lua/binding/error_value.h): they make such an error,
// and tell it from other values.

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"
#include "lua/binding/error_value.h"
#include "lua/binding/stack.h"
#include "lua/bindings/bindings.h"

namespace moonring::lua {
namespace {

Pushed NewError(lua_State* L, std::string code, std::string message,
                std::optional<std::string> place, std::optional<bool> out_of_memory) {
  const ErrorValue error = {.code = CodeOfName(code),
                            .message = std::move(message),
                            .place = place.value_or(""),
                            .out_of_memory = out_of_memory.value_or(false)};
  if (error.code == absl::StatusCode::kUnknown)
    throw base::StatusError(absl::InvalidArgumentError(absl::StrCat("no status code ", code)));
  PushError(L, error);
  return {1};
}

// The Lua function code(why): the name of the error's code; nil for any other value, even if it has
// a field `code`.
int CodeOfError(lua_State* L) {
  if (!IsError(L, 1)) return 0;
  return Value<std::string>::Push(L, absl::StatusCodeToString(ReadError(L, 1).code));
}

}  // namespace

void OpenErrors(lua_State* L) {
  PushModule(L, "errors", {{"new", Bind<&NewError>}, {"code", BindRaw<&CodeOfError, 1>}});
}

}  // namespace moonring::lua
