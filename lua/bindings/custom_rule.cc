#include "lua/bindings/custom_rule.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status/torch_status.h"
#include "lua/binding/class.h"
#include "lua/binding/handles.h"
#include "lua/binding/options.h"
#include "lua/binding/tensor.h"
#include "trainer/optimizer/rule_optimizer.h"
#include "trainer/optimizer/weight_decay.h"
#include "trainer/sharding/zero.h"

namespace moonring::lua {
namespace {

using trainer::UpdateRule;

// The Lua state that calls the optimizer, and the stack index of `call`, while a CustomRuleScope
// exists.
thread_local lua_State* calling = nullptr;
thread_local int call_index = 0;

// The handles that are passed to one call of a rule. They are closed when the call ends. Their
// bytes are not reported to the garbage collector, because that would trigger needless collections.
class LentTensors {
 public:
  ~LentTensors() {
    for (const std::shared_ptr<TensorHandle>& handle : handles_) handle->tensor.reset();
  }
  void Push(lua_State* L, const at::Tensor& tensor) {
    handles_.push_back(std::make_shared<TensorHandle>(TensorHandle{tensor}));
    Class<TensorHandle>::Push(L, handles_.back());
  }
  void Push(lua_State* L, const UpdateRule::State& state) {
    lua_createtable(L, 0, static_cast<int>(state.size()));
    for (const auto& [name, tensor] : state) {
      Push(L, tensor);
      lua_setfield(L, -2, name.c_str());
    }
  }
  // Takes the tensors out of the table that the rule returned, which is on top of the stack.
  UpdateRule::State Take(lua_State* L) {
    UpdateRule::State state;
    const int table = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
      std::shared_ptr<TensorHandle> handle = Class<TensorHandle>::Read(L, lua_gettop(L));
      state[Value<std::string>::Read(L, lua_gettop(L) - 1)] = handle->tensor;
      handles_.push_back(std::move(handle));
    }
    return state;
  }

 private:
  std::vector<std::shared_ptr<TensorHandle>> handles_;
};

// Pushes `call` and its first two arguments: the event ("state" or "step") and the parameter's
// number.
lua_State* PushCall(const char* event, size_t parameter) {
  TORCH_CHECK(calling != nullptr, "optimizer: its rule is in Lua: it is stepped and loaded there");
  luaL_checkstack(calling, 16, "optimizer");
  lua_pushvalue(calling, call_index);
  lua_pushstring(calling, event);
  lua_pushnumber(calling, static_cast<double>(parameter + 1));
  return calling;
}

UpdateRule::State CallState(size_t parameter, const at::Tensor& weight) {
  lua_State* const L = PushCall("state", parameter);
  LentTensors lent;
  lent.Push(L, weight);
  lua_call(L, 3, 1);
  UpdateRule::State state = lent.Take(L);
  lua_pop(L, 1);
  return state;
}

UpdateRule::State CallStep(size_t parameter, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
  lua_State* const L = PushCall("step", parameter);
  LentTensors lent;
  lent.Push(L, weight);
  lent.Push(L, state);
  lent.Push(L, gradient);
  lua_pushnumber(L, lr);
  lua_pushnumber(L, static_cast<double>(step));
  lua_call(L, 7, 1);
  UpdateRule::State next = lent.Take(L);
  lua_pop(L, 1);
  return next;
}

}  // namespace

CustomRuleScope::CustomRuleScope(lua_State* L, int index)
    : before_(calling), index_before_(call_index) {
  const auto optimizer = Class<trainer::Optimizer>::Read(L, index);
  if (dynamic_cast<trainer::RuleOptimizer*>(optimizer.get()) == nullptr) return;
  lua_getfenv(L, index);
  lua_getfield(L, -1, "call");
  lua_remove(L, -2);
  calling = L;
  call_index = lua_gettop(L);
}

CustomRuleScope::~CustomRuleScope() {
  calling = before_;
  call_index = index_before_;
}

int MakeCustomOptimizer(lua_State* L) {
  const auto list = Class<ParameterList>::Read(L, 1);
  CheckType(L, 2, LUA_TFUNCTION);
  Options options(L, 3);
  trainer::RuleOptimizerOptions wanted;
  if (const auto zero = options.Find<std::shared_ptr<trainer::Zero>>("zero")) {
    TORCH_CHECK_VALUE((*zero)->memory() == nullptr, "offload_optimizer: disk: an optimizer in Lua ",
                      "keeps its state in memory; `cpu` puts it into the host's");
    wanted.shards = (*zero)->shards();
    wanted.bucket_bytes = (*zero)->options().bucket_bytes;
  }
  for (const bool whole : options.Get<std::vector<bool>>("whole", {}))
    wanted.whole.push_back(whole);
  wanted.loraplus_ratio = options.Get<double>("loraplus_lr_ratio", wanted.loraplus_ratio);
  options.Finish();
  TORCH_CHECK_VALUE(wanted.whole.empty() || wanted.whole.size() == list->parameters.size(),
                    "own_optimizer: whole: expected ", list->parameters.size(), " booleans, got ",
                    wanted.whole.size());
  Class<trainer::Optimizer>::Push(
      L, base::ValueOrThrow(trainer::RuleOptimizer::Create(
             {.state = &CallState, .update = &CallStep}, std::move(wanted), list->parameters)));
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, "call");
  lua_setfenv(L, -2);
  return 1;
}

int PushParameterFacts(lua_State* L) {
  const auto list = Class<ParameterList>::Read(L, 1);
  lua_createtable(L, static_cast<int>(list->parameters.size()), 0);
  for (size_t i = 0; i < list->parameters.size(); ++i) {
    const base::Parameter& parameter = *list->parameters[i];
    lua_createtable(L, 0, 5);
    Value<std::string>::Push(L, parameter.name());
    lua_setfield(L, -2, "name");
    Value<std::vector<int64_t>>::Push(L, parameter.shape().vec());
    lua_setfield(L, -2, "shape");
    Value<int64_t>::Push(L, parameter.numel());
    lua_setfield(L, -2, "numel");
    lua_pushboolean(L, trainer::DecaysWeight(parameter.name()));
    lua_setfield(L, -2, "decays");
    lua_pushboolean(L, parameter.trainable());
    lua_setfield(L, -2, "trainable");
    lua_rawseti(L, -2, static_cast<int>(i + 1));
  }
  return 1;
}

}  // namespace moonring::lua
