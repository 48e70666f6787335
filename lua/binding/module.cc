#include "lua/binding/module.h"

#include "absl/strings/str_cat.h"
#include "lua/binding/guard.h"

namespace moonring::lua {

void PushModule(lua_State* L, const char* module, std::initializer_list<NamedFunction> functions) {
  lua_newtable(L);
  AddToModule(L, module, functions);
}

void AddToModule(lua_State* L, const char* module, std::initializer_list<NamedFunction> functions) {
  for (const auto& [name, bound] : functions) {
    NameFunction(L, bound.function, absl::StrCat(module, ".", name).c_str());
    lua_pushcfunction(L, bound.function);
    lua_setfield(L, -2, name);
  }
}

}  // namespace moonring::lua
