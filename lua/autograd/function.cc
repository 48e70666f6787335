#include "lua/autograd/function.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/strings/str_cat.h"
#include "base/autograd/custom_function.h"
#include "base/text/nearest_name.h"
#include "lua/autograd/running_backward.h"
#include "lua/binding/class.h"
#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"

namespace moonring::lua {
namespace {

constexpr char kSaved[] = "_saved";  // the field of ctx with the saved tensors

// The Lua method ctx:save(...): stores tensors for the backward.
int Save(lua_State* L) {
  CheckType(L, 1, LUA_TTABLE);
  const int count = lua_gettop(L) - 1;
  lua_createtable(L, count, 0);
  for (int i = 1; i <= count; ++i) {
    Value<at::Tensor>::Read(L, i + 1);
    lua_pushvalue(L, i + 1);
    lua_rawseti(L, -2, i);
  }
  lua_setfield(L, 1, kSaved);
  return 0;
}

int Saved(lua_State* L) {
  CheckType(L, 1, LUA_TTABLE);
  lua_getfield(L, 1, kSaved);
  if (lua_isnil(L, -1)) return 0;
  const int count = static_cast<int>(lua_objlen(L, 2));
  luaL_checkstack(L, count, "ctx:saved");
  for (int i = 1; i <= count; ++i) lua_rawgeti(L, 2, i);
  return count;
}

// Moves the tensors that forward saved in the ctx at `index` from the Lua table to the autograd
// graph.
base::Tensors TakeSaved(lua_State* L, int index) {
  lua_getfield(L, index, kSaved);
  base::Tensors saved;
  if (!lua_isnil(L, -1)) saved = Value<base::Tensors>::Read(L, lua_gettop(L));
  lua_pop(L, 1);
  lua_pushnil(L);
  lua_setfield(L, index, kSaved);
  return saved;
}

void PutSaved(lua_State* L, int index, const base::Tensors& saved) {
  Value<base::Tensors>::Push(L, saved);
  lua_setfield(L, index, kSaved);
}

// Reads the gradients that the Lua backward returned, in the order of forward's tensor arguments.
base::Tensors ReadGradients(lua_State* L, int first, const std::vector<bool>& is_tensor,
                            const std::string& name) {
  const int given = lua_gettop(L) - first + 1;
  TORCH_CHECK_VALUE(given <= static_cast<int>(is_tensor.size()), name, ": backward gave ", given,
                    " gradients for ", is_tensor.size(), " arguments of forward");
  base::Tensors gradients;
  for (size_t i = 0; i < is_tensor.size(); ++i) {
    const int index = first + static_cast<int>(i);
    const bool none = static_cast<int>(i) >= given || lua_isnil(L, index);
    TORCH_CHECK_VALUE(none || is_tensor[i], name, ": backward gave a gradient for argument ", i + 1,
                      ", which is no tensor");
    if (is_tensor[i]) gradients.push_back(none ? at::Tensor() : Value<at::Tensor>::Read(L, index));
  }
  return gradients;
}

// Calls an operator made by autograd.func. Upvalues: its forward, its backward, its name.
int CallFunction(lua_State* L) {
  const int count = lua_gettop(L);
  const std::string name = lua_tostring(L, lua_upvalueindex(3));
  base::Tensors inputs;
  std::vector<bool> is_tensor;
  for (int i = 1; i <= count; ++i) {
    is_tensor.push_back(Class<TensorHandle>::Test(L, i) != nullptr);
    if (is_tensor.back()) inputs.push_back(Value<at::Tensor>::Read(L, i));
  }
  lua_newtable(L);  // ctx
  const int ctx = count + 1;
  lua_pushcfunction(L, &Save);
  lua_setfield(L, ctx, "save");
  lua_pushcfunction(L, &Saved);
  lua_setfield(L, ctx, "saved");

  const auto backward = std::make_shared<HeldValue>(L, lua_upvalueindex(2));
  const auto context = std::make_shared<HeldValue>(L, ctx);
  const auto forward = [&](base::Tensors* saved) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, ctx);
    for (int i = 1; i <= count; ++i) lua_pushvalue(L, i);
    lua_call(L, count + 1, LUA_MULTRET);
    base::Tensors outputs;
    for (int i = ctx + 1; i <= lua_gettop(L); ++i) {
      TORCH_CHECK_VALUE(Class<TensorHandle>::Test(L, i) != nullptr, name, ": forward returned ",
                        luaL_typename(L, i), " where a tensor is expected");
      outputs.push_back(Value<at::Tensor>::Read(L, i));
    }
    TORCH_CHECK_VALUE(!outputs.empty(), name, ": forward returned no tensor");
    lua_settop(L, ctx);
    *saved = TakeSaved(L, ctx);
    return outputs;
  };
  const base::Tensors outputs =
      base::Apply({.name = name,
                   .forward = forward,
                   .backward =
                       [backward, context, is_tensor, name](base::BackwardCall& call) {
                         base::Tensors gradients;
                         backward->Call(
                             [&](lua_State* state) {
                               context->Push(state);
                               PutSaved(state, lua_gettop(state), call.saved);
                               for (const at::Tensor& each : call.gradients)
                                 Value<at::Tensor>::Push(state, each);
                               return static_cast<int>(call.gradients.size()) + 1;
                             },
                             [&](lua_State* state, int first) {
                               gradients = ReadGradients(state, first, is_tensor, name);
                               context->Push(state);
                               lua_pushnil(state);
                               lua_setfield(state, -2, kSaved);
                             });
                         return gradients;
                       },
                   .differentiable_backward = true},
                  inputs);
  lua_settop(L, 0);
  luaL_checkstack(L, static_cast<int>(outputs.size()), "a function's results");
  for (const at::Tensor& output : outputs) Value<at::Tensor>::Push(L, output);
  return static_cast<int>(outputs.size());
}

}  // namespace

int MakeFunction(lua_State* L) {
  CheckType(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  const std::pair<const char*, int> wanted[] = {
      {"forward", LUA_TFUNCTION}, {"backward", LUA_TFUNCTION}, {"name", LUA_TSTRING}};
  for (const auto& [key, type] : wanted) {
    lua_getfield(L, 1, key);
    const bool needed = type == LUA_TFUNCTION;
    TORCH_CHECK_VALUE(!needed || !lua_isnil(L, -1), "option '", key, "' is missing");
    TORCH_CHECK_VALUE(lua_isnil(L, -1) || lua_type(L, -1) == type, "option '", key,
                      "': expected a ", lua_typename(L, type), ", got ", luaL_typename(L, -1));
  }
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushstring(L, "func");
  }
  for (lua_pushnil(L); lua_next(L, 1) != 0; lua_pop(L, 1)) {
    const std::string key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    TORCH_CHECK_VALUE(key == "forward" || key == "backward" || key == "name", "unknown option '",
                      key, "'", base::DidYouMean(key, {"forward", "backward", "name"}),
                      "; known: backward, forward, name");
  }
  lua_pushcclosure(L, &CallFunction, 3);
  return 1;
}

}  // namespace moonring::lua
