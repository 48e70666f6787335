#include "lua/binding/options.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status/torch_status.h"
#include "base/text/nearest_name.h"

namespace moonring::lua {

Options::Options(lua_State* L, int index) : L_(L), index_(index) {
  if (lua_isnoneornil(L, index)) {
    index_ = 0;
  } else {
    if (!lua_istable(L, index)) RefuseValue(L, index, "table");
  }
}

bool Options::PushField(const char* key) {
  known_.emplace_back(key);
  if (index_ == 0) return false;
  lua_getfield(L_, index_, key);
  if (!lua_isnil(L_, -1)) return true;
  lua_pop(L_, 1);
  return false;
}

void Options::Refuse(const char* key, const ValueError& error) {
  throw base::StatusError(
      absl::InvalidArgumentError(absl::StrCat("option '", key, "': ", error.what())));
}

void Options::CheckType(const char* key, int wanted) {
  const int came = lua_type(L_, -1);
  if (wanted == LUA_TNONE || came == wanted) return;
  throw base::StatusError(absl::InvalidArgumentError(
      absl::StrCat("option '", key, "': expected a ", lua_typename(L_, wanted), ", got a ",
                   lua_typename(L_, came))));
}

void Options::CheckInteger(const char* key, double least, double most) {
  const double number = lua_tonumber(L_, -1);
  const double exact = 9007199254740992.0;  // 2^53: larger integers may not have an exact double
  if (number == std::floor(number) && number >= std::max(least, -exact) &&
      number <= std::min(most, exact))
    return;
  const char* range = number == std::floor(number) ? " in range" : "";
  throw base::StatusError(absl::InvalidArgumentError(absl::StrCat(
      "option '", key, "': expected an integer", range, ", got ", lua_tostring(L_, -1))));
}

void Options::CheckHandle(const char* key, bool open, const std::string& wanted) {
  if (open) return;
  const char* came = luaL_typename(L_, -1);
  std::string words = came;
  if (luaL_callmeta(L_, -1,
                    "__tostring")) {  // a handle's description: another class, or closed
    if (const char* text = lua_tostring(L_, -1)) words = text;
    if (const size_t end = words.find('\n'); end != std::string::npos)
      words = absl::StrCat(words.substr(0, end), " ..");  // shortens a printed tensor
    lua_pop(L_, 1);
  }
  throw base::StatusError(absl::InvalidArgumentError(
      absl::StrCat("option '", key, "': expected a ", wanted, ", got ", words)));
}

// Throws the error for a missing option. The key is often misspelt, so the message suggests the
// nearest key that was given but not read yet.
void Options::Missing(const char* key) {
  std::string near;
  if (index_ != 0) {
    std::vector<std::string> others;
    lua_pushnil(L_);
    while (lua_next(L_, index_) != 0) {
      lua_pop(L_, 1);
      if (lua_type(L_, -1) != LUA_TSTRING) continue;
      const std::string other = lua_tostring(L_, -1);
      if (std::find(known_.begin(), known_.end(), other) == known_.end()) others.push_back(other);
    }
    std::sort(others.begin(), others.end());
    if (const std::string nearest = base::NearestName(key, others); !nearest.empty())
      near = absl::StrCat("; there is '", nearest, "'");
  }
  throw base::StatusError(
      absl::InvalidArgumentError(absl::StrCat("option '", key, "' is missing", near)));
}

void Options::Finish() {
  if (index_ == 0) return;
  lua_pushnil(L_);
  while (lua_next(L_, index_) != 0) {
    lua_pop(L_, 1);
    lua_pushvalue(L_, -1);  // lua_tostring would convert the key that lua_next needs
    const std::string key = lua_tostring(L_, -1) ? lua_tostring(L_, -1) : luaL_typename(L_, -1);
    lua_pop(L_, 1);
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      throw base::StatusError(absl::InvalidArgumentError(
          absl::StrCat("unknown option '", key, "'", base::DidYouMean(key, known_),
                       "; known: ", absl::StrJoin(known_, ", "))));
    }
  }
}

}  // namespace moonring::lua
