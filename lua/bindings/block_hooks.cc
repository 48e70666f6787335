#include "lua/bindings/block_hooks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "absl/functional/function_ref.h"
#include "attention/hooks/attention_hooks.h"
#include "lua/autograd/running_backward.h"
#include "lua/binding/class.h"
#include "lua/binding/stack.h"
#include "lua/binding/tensor.h"

namespace moonring::lua {
namespace {

using attention::AttentionHooks;
using attention::HookTile;
using attention::NamedTensors;
using attention::QueryKeyValue;

struct HookCall {
  absl::FunctionRef<int(lua_State*)> push;        // pushes the arguments, returns their number
  absl::FunctionRef<void(lua_State*, int)> read;  // reads the results from an index on
};

// The Lua function that calls a hook, its upvalue, for a HookCall. Runs inside a moonring.scope,
// which closes the tensors that are pushed here.
int RunHook(lua_State* L) {
  const auto& call = *static_cast<const HookCall*>(lua_touserdata(L, 1));
  lua_settop(L, 0);
  luaL_checkstack(L, LUA_MINSTACK, "inside");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, call.push(L), LUA_MULTRET);
  call.read(L, 1);
  return 0;
}

// A hook that may be called until its last copy is destroyed.
class Hook {
 public:
  Hook(lua_State* L, int index) {
    lua_pushvalue(L, index);
    lua_pushcclosure(L, &RunHook, 1);
    held_ = std::make_shared<HeldValue>(L, lua_gettop(L));
    lua_pop(L, 1);
  }
  void operator()(absl::FunctionRef<int(lua_State*)> push,
                  absl::FunctionRef<void(lua_State*, int)> read) const {
    HookCall call{push, read};
    held_->Call(
        [&](lua_State* state) {
          lua_pushlightuserdata(state, &call);
          return 1;
        },
        [](lua_State*, int) {});
  }

 private:
  std::shared_ptr<HeldValue> held_;
};

int PushNamed(lua_State* L, const NamedTensors& named) {
  lua_createtable(L, 0, static_cast<int>(named.size()));
  for (const auto& [name, tensor] : named) {
    Value<at::Tensor>::Push(L, tensor);
    lua_setfield(L, -2, name.c_str());
  }
  return 1;
}

// "a number", or "nothing" for nil.
std::string TypeAt(lua_State* L, int index) {
  return lua_isnoneornil(L, index) ? "nothing" : std::string("a ") + luaL_typename(L, index);
}

at::Tensor ReadTensor(lua_State* L, int index, const std::string& where) {
  TORCH_CHECK_VALUE(Class<TensorHandle>::Test(L, index) != nullptr, where, " returned ",
                    TypeAt(L, index), ", expected a Tensor");
  return Value<at::Tensor>::Read(L, index);
}

// Reads a table of tensors by name, sorted, so that the order is the same on every rank.
NamedTensors ReadNamed(lua_State* L, int index, const std::string& where) {
  TORCH_CHECK_VALUE(lua_istable(L, index), where, " returned ", TypeAt(L, index),
                    ", expected a table of tensors by name");
  NamedTensors named;
  for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
    TORCH_CHECK_VALUE(lua_type(L, -2) == LUA_TSTRING, where,
                      " returned a list, expected a table of tensors by name");
    const std::string name = lua_tostring(L, -2);
    named.emplace_back(name, ReadTensor(L, lua_gettop(L), where + ": '" + name + "'"));
  }
  std::sort(named.begin(), named.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return named;
}

int PushTile(lua_State* L, const HookTile& tile) {
  lua_createtable(L, 0, 8);
  const auto number = [L](const char* field, int64_t value) {
    lua_pushnumber(L, static_cast<double>(value));
    lua_setfield(L, -2, field);
  };
  const auto tensor = [L](const char* field, const at::Tensor& value) {
    Value<at::Tensor>::Push(L, value);
    lua_setfield(L, -2, field);
  };
  number("block", tile.layer + 1);
  number("document", tile.document + 1);
  tensor("q", tile.keys.q_THD);
  tensor("k", tile.keys.k_SKD);
  tensor("v", tile.keys.v_SKD);
  tensor("places", tile.places_M);
  PushNamed(L, tile.rows);
  lua_setfield(L, -2, "rows");
  PushNamed(L, tile.given);
  lua_setfield(L, -2, "given");
  return 1;
}

std::function<at::Tensor(const HookTile&)> OfTile(const Hook& hook, const std::string& where) {
  return [hook, where](const HookTile& tile) {
    at::Tensor result;
    hook([&](lua_State* L) { return PushTile(L, tile); },
         [&](lua_State* L, int first) { result = ReadTensor(L, first, where); });
    return result;
  };
}

std::function<QueryKeyValue(const QueryKeyValue&, const NamedTensors&)> OfHeads(
    const Hook& hook, const std::string& where) {
  return [hook, where](const QueryKeyValue& rows, const NamedTensors& given) {
    QueryKeyValue made;
    hook(
        [&](lua_State* L) {
          for (const at::Tensor& each : {rows.q_THD, rows.k_SKD, rows.v_SKD})
            Value<at::Tensor>::Push(L, each);
          return 3 + PushNamed(L, given);
        },
        [&](lua_State* L, int first) {
          TORCH_CHECK_VALUE(lua_gettop(L) == first + 2, where, " returned ",
                            lua_gettop(L) - first + 1, " values, expected q, k and v");
          made = {ReadTensor(L, first, where), ReadTensor(L, first + 1, where),
                  ReadTensor(L, first + 2, where)};
        });
    return made;
  };
}

std::function<NamedTensors(const at::Tensor&, const NamedTensors&)> OfRows(
    const Hook& hook, const std::string& where) {
  return [hook, where](const at::Tensor& hidden_TD, const NamedTensors& given) {
    NamedTensors made;
    hook(
        [&](lua_State* L) {
          Value<at::Tensor>::Push(L, hidden_TD);
          return 1 + PushNamed(L, given);
        },
        [&](lua_State* L, int first) { made = ReadNamed(L, first, where); });
    return made;
  };
}

NamedTensors GivenAt(lua_State* L, int index, const std::string& where) {
  if (!lua_isfunction(L, index)) return ReadNamed(L, index, where);
  NamedTensors given;
  const auto nothing = [](lua_State*) { return 0; };
  const auto read = [&](lua_State* state, int first) { given = ReadNamed(state, first, where); };
  HookCall call{nothing, read};
  lua_pushcfunction(L, &Scope);
  lua_pushvalue(L, index);
  lua_pushcclosure(L, &RunHook, 1);
  lua_pushlightuserdata(L, &call);
  lua_call(L, 2, 0);
  return given;
}

model::InsideBlock BlockAt(lua_State* L, int index, int64_t number) {
  const std::string block = "inside: block " + std::to_string(number);
  TORCH_CHECK_VALUE(lua_istable(L, index), block, ": expected a table of functions, got a ",
                    luaL_typename(L, index));
  Options options(L, index);
  const auto find = [&](const char* name) -> std::optional<Hook> {
    const int at = options.Push(name);
    if (at == 0) return std::nullopt;
    TORCH_CHECK_VALUE(lua_isfunction(L, at), block, ": ", name, ": expected a function, got a ",
                      luaL_typename(L, at));
    return Hook(L, at);
  };
  const auto where = [&](const char* name) { return block + ": " + name; };
  model::InsideBlock inside;
  AttentionHooks hooks;
  if (const auto hook = find("qkv")) hooks.qkv = OfHeads(*hook, where("qkv"));
  if (const auto hook = find("rows")) hooks.rows = OfRows(*hook, where("rows"));
  if (const auto hook = find("bias")) hooks.bias = OfTile(*hook, where("bias"));
  if (const auto hook = find("blocks")) hooks.blocks = OfTile(*hook, where("blocks"));
  hooks.block_size = options.Get<int64_t>("block_size", 0);
  const int given = options.Push("given");
  options.Finish();
  TORCH_CHECK_VALUE(hooks.qkv != nullptr || hooks.composes(), block,
                    ": expected one of the functions qkv, bias and blocks");
  TORCH_CHECK_VALUE(hooks.rows == nullptr || hooks.composes(), block,
                    ": rows without bias or blocks, which use them");
  TORCH_CHECK_VALUE(
      hooks.block_size >= 0 && (hooks.blocks != nullptr) == (hooks.block_size > 0), block,
      ": blocks and block_size (1 or more) are given together, got block_size ", hooks.block_size);
  if (given != 0) inside.given = GivenAt(L, given, where("given"));
  inside.hooks = std::make_shared<const AttentionHooks>(std::move(hooks));
  return inside;
}

}  // namespace

std::map<int64_t, model::InsideBlock> InsideOf(lua_State* L, Options& options, int64_t layers) {
  std::map<int64_t, model::InsideBlock> inside;
  const int at = options.Push("inside");
  if (at == 0) return inside;
  TORCH_CHECK_VALUE(lua_istable(L, at), "option 'inside': expected a table, got a ",
                    luaL_typename(L, at));
  luaL_checkstack(L, LUA_MINSTACK, "inside");
  for (lua_pushnil(L); lua_next(L, at) != 0;) {
    const int key = lua_gettop(L) - 1;
    const double number = lua_type(L, key) == LUA_TNUMBER ? lua_tonumber(L, key) : 0;
    if (number < 1 || number > static_cast<double>(layers) || number != std::floor(number)) {
      lua_pushvalue(L, key);  // lua_tostring would convert the key that lua_next needs
      const char* const text = lua_tostring(L, -1);
      TORCH_CHECK_VALUE(false, "option 'inside': block ", text != nullptr ? text : "?",
                        ", expected 1 to ", layers);
    }
    const auto block = static_cast<int64_t>(number);
    inside.emplace(block - 1, BlockAt(L, key + 1, block));
    lua_settop(L, key);
  }
  return inside;
}

}  // namespace moonring::lua
