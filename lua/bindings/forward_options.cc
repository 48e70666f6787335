#include "lua/bindings/forward_options.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "absl/strings/string_view.h"
#include "lua/binding/class.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"

namespace moonring::lua {
namespace {

bool IsCallable(lua_State* L, int index) {
  if (lua_isfunction(L, index)) return true;
  if (!luaL_getmetafield(L, index, "__call")) return false;
  lua_pop(L, 1);
  return true;
}

// Checks that the value at `index` is a table of functions by layer.
void CheckFunctions(lua_State* L, int index, int64_t layers) {
  TORCH_CHECK_VALUE(lua_istable(L, index), "option 'around': expected a function, got a ",
                    luaL_typename(L, index), "; or a table of functions by layer");
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    const int key = lua_gettop(L) - 1;
    const double layer = lua_type(L, key) == LUA_TNUMBER ? lua_tonumber(L, key) : -1;
    if (layer < 0 || layer > static_cast<double>(layers) || layer != std::floor(layer)) {
      lua_pushvalue(L, key);  // lua_tostring would convert the key that lua_next needs
      const char* const text = lua_tostring(L, -1);
      TORCH_CHECK_VALUE(false, "option 'around': layer ", text != nullptr ? text : "?",
                        ", expected 0 (after the embedding) to ", layers,
                        " (after the last block)");
    }
    TORCH_CHECK_VALUE(IsCallable(L, key + 1), "option 'around': layer ", layer,
                      ": expected a function, got a ", luaL_typename(L, key + 1));
  }
}

struct AroundCall {
  int64_t layer;
  bool tells_layer;
  const at::Tensor* hidden_TD;
  at::Tensor result;  // undefined: none
};

// Called with (function, AroundCall*) inside a moonring.scope, which closes the tensors that are
// pushed here.
int RunAround(lua_State* L) {
  auto* call = static_cast<AroundCall*>(lua_touserdata(L, 2));
  lua_settop(L, 1);
  if (call->tells_layer) lua_pushnumber(L, static_cast<double>(call->layer));
  Value<at::Tensor>::Push(L, *call->hidden_TD);
  lua_call(L, lua_gettop(L) - 1, 1);
  if (lua_isnil(L, -1)) return 0;
  const std::shared_ptr<TensorHandle>* handle = Class<TensorHandle>::Test(L, -1);
  TORCH_CHECK_VALUE(handle != nullptr && *handle != nullptr, "around: after layer ", call->layer,
                    " it gave a ", luaL_typename(L, -1),
                    ", expected a Tensor, or nothing where the stream stays as it is");
  TORCH_CHECK_VALUE((*handle)->tensor.defined(), "around: after layer ", call->layer,
                    " it gave a tensor that is closed (its scope has ended; x:keep() moves it "
                    "out)");
  call->result = (*handle)->tensor;
  return 0;
}

}  // namespace

// Reads every option about noise, even if no noise is requested, because the caller refuses options
// that nobody has read as unknown.
std::optional<model::Noise> NoiseOf(Options& options) {
  const std::optional<uint64_t> seed = options.Find<uint64_t>("seed"),
                                step = options.Find<uint64_t>("step");
  model::Noise noise;
  noise.identity_T = TensorOption(options, "identity");
  noise.neftune_alpha = options.Get<double>("neftune_alpha", 0.0);
  noise.lengths_T = TensorOption(options, "lengths");
  const int keys = seed.has_value() + step.has_value() + noise.identity_T.defined();
  TORCH_CHECK_VALUE(keys == 3 || (keys == 0 && noise.neftune_alpha == 0.0),
                    "forward: noise requires seed, step and identity, all three");
  if (keys == 0) return std::nullopt;
  noise.seed = *seed;
  noise.step = *step;
  return noise;
}

model::RouterGroups RouterGroupsOf(Options& options) {
  const std::optional<int64_t> count = options.Find<int64_t>("router_group_count");
  model::RouterGroups groups{TensorOption(options, "router_groups"), count.value_or(0)};
  TORCH_CHECK_VALUE(groups.group_T.defined() == count.has_value(),
                    "forward: router_groups and router_group_count go together");
  return groups;
}

model::StreamHook AroundOf(lua_State* L, Options& options, int64_t layers) {
  const int at = options.Push("around");
  if (at == 0) return nullptr;
  const bool by_layer = !IsCallable(L, at);
  if (by_layer) CheckFunctions(L, at, layers);
  return [=](int64_t layer, absl::string_view, const at::Tensor& hidden_TD) {
    AroundCall call{layer, !by_layer, &hidden_TD, {}};
    if (layer > layers) return call.result;  // after the final norm
    luaL_checkstack(L, 4, "around");
    lua_pushcfunction(L, &Scope);
    lua_pushcfunction(L, &RunAround);
    by_layer ? lua_rawgeti(L, at, static_cast<int>(layer)) : lua_pushvalue(L, at);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 3);
      return call.result;
    }
    lua_pushlightuserdata(L, &call);
    lua_call(L, 3, 0);
    return call.result;
  };
}

model::StreamHooks StreamHooksOf(lua_State* L, Options& options, int64_t layers) {
  model::StreamHooks hooks;
  hooks.states = options.Get<std::vector<int64_t>>("states", {});
  hooks.upto = options.Find<int64_t>("upto");
  hooks.after = AroundOf(L, options, layers);
  return hooks;
}

}  // namespace moonring::lua
