#ifndef MOONRING_LUA_ROLLOUT_OPTIONS_H_
#define MOONRING_LUA_ROLLOUT_OPTIONS_H_

// Reads a script's options for sampling and its prompts for a rollout, and pushes the answers.

#include <vector>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "model/rollout/rollout.h"
#include "model/rollout/rollout_options.h"
#include "model/sampling.h"

namespace moonring::lua {

// Reads max_new_tokens, temperature, top_k, top_p, repetition_penalty, stop_ids and seed.
model::SamplingOptions SamplingOf(Options& options);

// Reads the list at `index` of {ids, key}.
std::vector<model::RolloutPrompt> PromptsOf(lua_State* L, int index);

// Reads the same options, and min_p, answers, sequences, keep_casts, lockstep (a mesh), attention
// (on a mesh), and `around`, which stays on the stack (forward_options.h).
model::RolloutOptions RolloutOptionsOf(lua_State* L, Options& options, int64_t layers);

// Pushes answers by prompt, then by answer: {ids, stopped, log_probs}.
Pushed PushAnswers(lua_State* L, const std::vector<std::vector<model::Answer>>& answers);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_ROLLOUT_OPTIONS_H_
