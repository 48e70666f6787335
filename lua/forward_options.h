#ifndef MOONRING_LUA_FORWARD_OPTIONS_H_
#define MOONRING_LUA_FORWARD_OPTIONS_H_

// Reads a script's options for a model's forward.

#include <cstdint>
#include <optional>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "model/blocks/experts.h"
#include "model/stream_hooks.h"
#include "model/transformer.h"

namespace moonring::lua {

// Reads seed, step, identity, neftune_alpha and lengths; nullopt if none of the first three is
// given.
std::optional<model::Noise> NoiseOf(Options& options);

// Reads router_groups and router_group_count.
model::RouterGroups RouterGroupsOf(Options& options);

// Reads `around`: a function of (layer, hidden), or a table of functions of hidden by layer, 0 to
// `layers`; null if absent. A function returns the replacement for hidden, or nothing. All tensors
// that it creates or receives are closed at its end, as at the end of a moonring.scope. Its Lua
// errors are propagated.
//
// The value stays on the stack: the hook is valid until the calling C function returns.
model::StreamHook AroundOf(lua_State* L, Options& options, int64_t layers);

// Reads `around`, `states` and `upto`.
model::StreamHooks StreamHooksOf(lua_State* L, Options& options, int64_t layers);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_FORWARD_OPTIONS_H_
