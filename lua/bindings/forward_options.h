#ifndef MOONRING_LUA_BINDINGS_FORWARD_OPTIONS_H_
#define MOONRING_LUA_BINDINGS_FORWARD_OPTIONS_H_

// Reads a script's options for a model's forward.

#include <cstdint>
#include <optional>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "model/blocks/experts.h"
#include "model/stream_hooks.h"
#include "model/transformer.h"

namespace moonring::lua {

// Reads the options for random noise: seed, step, identity, neftune_alpha and lengths. Returns
// nullopt if seed, step and identity are all absent; throws if only some of them are given.
std::optional<model::Noise> NoiseOf(Options& options);

// Reads router_groups (the group of each token for the load-balancing loss) and router_group_count.
model::RouterGroups RouterGroupsOf(Options& options);

// Reads `around`: a function of (layer, hidden), or a table of functions of hidden by layer, from 0
// to `layers`; null if absent. The function returns the replacement for hidden, or nothing. All
// tensors that it creates or receives are closed when it returns, as at the end of a
// moonring.scope. Its Lua errors are propagated.
//
// The Lua value stays on the stack: the returned hook is valid until the calling C function
// returns.
model::StreamHook AroundOf(lua_State* L, Options& options, int64_t layers);

// Reads `around`, `states` (layers whose hidden states are returned) and `upto` (the last layer to
// run).
model::StreamHooks StreamHooksOf(lua_State* L, Options& options, int64_t layers);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_FORWARD_OPTIONS_H_
