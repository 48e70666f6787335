#ifndef MOONRING_LUA_BINDINGS_ROLLOUT_OPTIONS_H_
#define MOONRING_LUA_BINDINGS_ROLLOUT_OPTIONS_H_

// Reads a script's sampling options and prompts for a rollout (generating answers), and pushes the
// answers.

#include <vector>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "model/rollout/rollout.h"
#include "model/rollout/rollout_options.h"
#include "model/token_choice.h"

namespace moonring::lua {

// Reads max_new_tokens, temperature, top_k, top_p, repetition_penalty, stop_ids and seed.
model::SamplingOptions SamplingOf(Options& options);

// Reads the list of prompts at stack index `index`. A prompt is a table {ids, key}.
std::vector<model::RolloutPrompt> PromptsOf(lua_State* L, int index);

// Reads the same options as SamplingOf, and min_p, answers, sequences, keep_casts, lockstep (a
// mesh), attention (an attention strategy on a mesh), and `around`, whose Lua value stays on the
// stack (forward_options.h).
model::RolloutOptions RolloutOptionsOf(lua_State* L, Options& options, int64_t layers);

// Pushes a list by prompt of lists by answer: {ids, stopped, log_probs}, and {mask, turns} if
// answers may have several turns.
Pushed PushAnswers(lua_State* L, const std::vector<std::vector<model::Answer>>& answers,
                   bool has_turns);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_ROLLOUT_OPTIONS_H_
