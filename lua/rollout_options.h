#ifndef MOONRING_LUA_ROLLOUT_OPTIONS_H_
#define MOONRING_LUA_ROLLOUT_OPTIONS_H_

// What scripts say of how tokens are chosen, and of a rollout's prompts, and what they get of one.

#include <vector>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "lua/binding/stack.h"
#include "model/rollout/rollout.h"
#include "model/rollout/rollout_options.h"
#include "model/sampling.h"

namespace moonring::lua {

// max_new_tokens, temperature, top_k, top_p, repetition_penalty, stop_ids and seed.
model::SamplingOptions SamplingOf(Options& options);

// The list at `index` of {ids, key}.
std::vector<model::RolloutPrompt> PromptsOf(lua_State* L, int index);

// The same, min_p, answers, sequences, keep_casts, lockstep (a mesh), attention (on a mesh), and
// `around`, which stays on the stack (forward_options.h).
model::RolloutOptions RolloutOptionsOf(lua_State* L, Options& options, int64_t layers);

// By prompt, by answer: {ids, stopped, log_probs}.
Pushed PushAnswers(lua_State* L, const std::vector<std::vector<model::Answer>>& answers);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_ROLLOUT_OPTIONS_H_
