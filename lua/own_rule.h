#ifndef MOONRING_LUA_OWN_RULE_H_
#define MOONRING_LUA_OWN_RULE_H_

// Optimizers whose rule is a Lua function (trainer/rule_optimizer.h).
//
//   trainer.own_optimizer(parameters, call, { zero, whole, loraplus_lr_ratio })
//
// `call` is what lua/moonring/choices/custom_optimizer.lua makes of a script's rule. Parameters are
// numbered from 1, in the list's order:
//
//   call("state", i, weight) -> names to tensors
//   call("step", i, weight, state, gradient, lr, k) -> the state
//
// The handle carries `call`, and no C++ object does: it is found while a bound function that was
// given the handle runs, in the coroutine that called it. Tensors that `call` is given, and those
// that it returns, are closed when it has returned.

#include <lua.hpp>

#include "lua/binding/stack.h"

namespace moonring::lua {

// While it lives, the optimizer behind the handle at `index` may call its rule. For one whose rule
// is not in Lua it does nothing.
class OwnRuleScope {
 public:
  OwnRuleScope(lua_State* L, int index);
  ~OwnRuleScope();
  OwnRuleScope(const OwnRuleScope&) = delete;
  OwnRuleScope& operator=(const OwnRuleScope&) = delete;

 private:
  lua_State* before_;
  int index_before_;
};

// own_optimizer(parameters, call, options), as above.
int MakeOwnOptimizer(lua_State* L);

// parameter_facts(parameters): a list of { name, shape, numel, decays, trainable }.
int PushParameterFacts(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OWN_RULE_H_
