#include "lua/bindings/gradient_book.h"

#include <algorithm>
#include <new>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status/torch_status.h"

namespace moonring::lua {
namespace {

struct GradientBook {
  int ranks = 1;
  std::vector<std::weak_ptr<base::Parameter>> made;
};

const char kBook = 0;  // its address is the registry key

int CollectBook(lua_State* L) {
  static_cast<GradientBook*>(lua_touserdata(L, 1))->~GradientBook();
  return 0;
}

// The book of this state; created at its first use.
GradientBook& Book(lua_State* L) {
  lua_pushlightuserdata(L, const_cast<char*>(&kBook));
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushlightuserdata(L, const_cast<char*>(&kBook));
    new (lua_newuserdata(L, sizeof(GradientBook))) GradientBook;
    lua_newtable(L);
    lua_pushcfunction(L, &CollectBook);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -1);
    lua_insert(L, -3);
    lua_rawset(L, LUA_REGISTRYINDEX);
  }
  auto* const book = static_cast<GradientBook*>(lua_touserdata(L, -1));
  lua_pop(L, 1);
  return *book;
}

}  // namespace

void NoteRanks(lua_State* L, int ranks) { Book(L).ranks = ranks; }

void CheckSummed(lua_State* L, const trainer::Optimizer& optimizer) {
  if (Book(L).ranks == 1) return;
  for (const auto& parameter : optimizer.parameters()) {
    if (!parameter->trainable() || !parameter->gradient().defined() || parameter->is_summed())
      continue;
    throw base::StatusError(absl::FailedPreconditionError(absl::StrCat(
        "the gradient of ", parameter->name(), " is that of this rank alone: expected ",
        "states:sum_gradients(), or trainer.sum_gradients(parameters, mesh), between backward and ",
        "step, as the weights would differ between ranks")));
  }
}

void NoteParameter(lua_State* L, const std::shared_ptr<base::Parameter>& parameter) {
  auto& made = Book(L).made;
  std::erase_if(made, [](const auto& one) { return one.expired(); });
  made.push_back(parameter);
}

std::vector<std::string> UnlistedParameters(lua_State* L, const base::Parameters& listed) {
  absl::flat_hash_set<const base::Parameter*> known;
  for (const auto& parameter : listed) known.insert(parameter.get());
  std::vector<std::string> names;
  for (const auto& weak : Book(L).made) {
    const auto parameter = weak.lock();
    if (parameter != nullptr && parameter->trainable() && parameter->gradient().defined() &&
        !known.contains(parameter.get()))
      names.push_back(parameter->name());
  }
  return names;
}

}  // namespace moonring::lua
