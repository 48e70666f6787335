#ifndef MOONRING_LUA_BINDINGS_BLOCK_HOOKS_H_
#define MOONRING_LUA_BINDINGS_BLOCK_HOOKS_H_

// Reads a script's functions inside blocks: the option `inside` of a model's forward.
//
//   inside = { [block] = { qkv =, rows =, bias =, blocks =, block_size =, given = } }
//
// Blocks are numbered from 1, like the layers of `around`. attention/hooks/attention_hooks.h has
// what each function gets and returns; named tensors are Lua tables. `given` is a table of tensors,
// or a function that returns one, which is called once, before the forward.

#include <cstdint>
#include <map>

#include <lua.hpp>

#include "lua/binding/options.h"
#include "model/transformer.h"

namespace moonring::lua {

// Returns the hooks by layer, from 0; empty if the option is absent. They call Lua in the forward
// and in the backward, both of which must run inside RunBackward (running_backward.h), on the
// calling thread. Tensors that a function creates or receives are closed when it returns.
std::map<int64_t, model::InsideBlock> InsideOf(lua_State* L, Options& options, int64_t layers);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_BINDINGS_BLOCK_HOOKS_H_
