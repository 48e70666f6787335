#ifndef MOONRING_LUA_BINDINGS_CUSTOM_RULE_H_
#define MOONRING_LUA_BINDINGS_CUSTOM_RULE_H_

// Optimizers whose update rule is a Lua function (trainer/optimizer/rule_optimizer.h).
//
//   trainer.own_optimizer(parameters, call, { zero, whole, loraplus_lr_ratio })
//
// lua/types/trainer.lua describes the options. `call` is made by
// lua/moonring/choices/custom_optimizer.lua from the update rule in a script. Parameters are
// numbered from 1, in the list's order:
//
//   call("state", i, weight) -> table of tensors by name
//   call("step", i, weight, state, gradient, lr, k) -> the new state
//
// The Lua handle of the optimizer stores `call`; the C++ object does not. `call` is therefore only
// available while a native function that received this handle as an argument runs, in the coroutine
// that called the native function. Tensors passed to `call` and returned by it are closed when it
// has returned.

#include <lua.hpp>

#include "lua/binding/stack.h"

namespace moonring::lua {

// While this object exists, the optimizer behind the handle at `index` may call its Lua rule. Does
// nothing for an optimizer without a Lua rule.
class CustomRuleScope {
 public:
  CustomRuleScope(lua_State* L, int index);
  ~CustomRuleScope();
  CustomRuleScope(const CustomRuleScope&) = delete;
  CustomRuleScope& operator=(const CustomRuleScope&) = delete;

 private:
  lua_State* before_;
  int index_before_;
};

// The Lua function own_optimizer(parameters, call, options), as described at the top of this file.
int MakeCustomOptimizer(lua_State* L);

// The Lua function parameter_facts(parameters): pushes a list of { name, shape, numel, decays,
// trainable }.
int PushParameterFacts(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_CUSTOM_RULE_H_
