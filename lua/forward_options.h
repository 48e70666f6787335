#ifndef MOONRING_LUA_FORWARD_OPTIONS_H_
#define MOONRING_LUA_FORWARD_OPTIONS_H_

// What scripts may tell a forward of a model, out of its table of options.

#include <cstdint>
#include <optional>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "model/blocks/experts.h"
#include "model/stream_hooks.h"
#include "model/transformer.h"

namespace moonring::lua {

// seed, step, identity, neftune_alpha and lengths: absent where none of the first three is given.
std::optional<model::Noise> NoiseOf(Options& options);

// router_groups and router_group_count.
model::RouterGroups RouterGroupsOf(Options& options);

// `around`: a function of (layer, hidden), or a table of functions of hidden by layer, 0 to
// `layers`; null where it is absent. A function returns what goes on, or nothing. Whatever tensors
// it makes or sees are closed at its end, as at the end of a moonring.scope. Its errors go on as
// Lua's.
//
// The value stays on the stack: the hook is good until the C function that calls this returns.
model::StreamHook AroundOf(lua_State* L, Options& options, int64_t layers);

// The same, states and upto.
model::StreamHooks StreamHooksOf(lua_State* L, Options& options, int64_t layers);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_FORWARD_OPTIONS_H_
