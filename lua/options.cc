#include "lua/options.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/nearest_name.h"
#include "comm/torch_status.h"

namespace moonring::lua {

Options::Options(lua_State* L, int index) : L_(L), index_(index) {
  if (lua_isnoneornil(L, index)) {
    index_ = 0;
  } else {
    luaL_checktype(L, index, LUA_TTABLE);
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

void Options::CheckType(const char* key, int wanted) {
  const int came = lua_type(L_, -1);
  if (wanted == LUA_TNONE || came == wanted) return;
  throw comm::StatusError(
      absl::InvalidArgumentError(absl::StrCat("option '", key, "': wanted a ", lua_typename(L_, wanted), ", got a ", lua_typename(L_, came))));
}

void Options::Missing(const char* key) { throw comm::StatusError(absl::InvalidArgumentError(absl::StrCat("option '", key, "' is missing"))); }

void Options::Finish() {
  if (index_ == 0) return;
  lua_pushnil(L_);
  while (lua_next(L_, index_) != 0) {
    lua_pop(L_, 1);
    lua_pushvalue(L_, -1);  // lua_tostring would change the key that lua_next walks by
    const std::string key = lua_tostring(L_, -1) ? lua_tostring(L_, -1) : luaL_typename(L_, -1);
    lua_pop(L_, 1);
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      throw comm::StatusError(absl::InvalidArgumentError(
          absl::StrCat("unknown option '", key, "'", comm::DidYouMean(key, known_), "; known: ", absl::StrJoin(known_, ", "))));
    }
  }
}

}  // namespace moonring::lua
