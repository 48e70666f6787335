#ifndef MOONRING_LUA_BINDINGS_ROLLOUT_OPTIONS_H_
#define MOONRING_LUA_BINDINGS_ROLLOUT_OPTIONS_H_

// Reads a script's options for a rollout (generating answers), and pushes the answers.

#include <vector>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "model/rollout/rollout.h"
#include "model/rollout/rollout_options.h"
#include "model/token_choice.h"

namespace moonring::lua {

// Reads the same options as SamplingOf (rollout_prompts.h), and min_p, answers, sequences,
// keep_casts, lockstep (a mesh), attention (an attention strategy on a mesh), and `around`, whose
// Lua value stays on the stack (forward_options.h).
model::RolloutOptions RolloutOptionsOf(lua_State* L, Options& options, int64_t layers);

// Pushes {ids, stopped, log_probs}, {mask, turns} if answers may have several turns, `cancelled` if
// it was, and `top` if it was asked for.
void PushAnswer(lua_State* L, const model::Answer& answer, bool has_turns);

// Pushes {ids, log_probs}.
void PushTop(lua_State* L, const std::vector<model::IdLogProb>& top);

// Pushes a list by prompt of lists by answer.
Pushed PushAnswers(lua_State* L, const std::vector<std::vector<model::Answer>>& answers,
                   bool has_turns);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_ROLLOUT_OPTIONS_H_
