#ifndef MOONRING_LUA_OPERATORS_INDEXING_H_
#define MOONRING_LUA_OPERATORS_INDEXING_H_

// Indexing of tensors, x[..], 0-based, with PyTorch's semantics.
//
//   x[i]                   row i of dim 0, without that dim; -1 is the last. A view
//   x[{ i, j }]            one entry for each dim: element (i, j)
//   x[{ {1, 3}, 2 }]       {first, end}: rows 1 and 2 (end is exclusive), column 2. A view
//   x[{ {}, {0, 9, 3} }]   {}: all of a dim; {first}: from there on; {first, end, step}
//   x[{ "...", 0 }]        "...": all the dims between
//   x[{ moonring.null }]   a new dim of size 1
//   x[mask], x[{ {}, rows }]    a bool or int64 tensor: the elements that it selects. A copy
//   x[..] = v              writes a number or a tensor, broadcast
//
// An index out of range is INVALID_ARGUMENT; a slice is clamped to the dim.

#include <lua.hpp>

namespace moonring::lua {

// Pushes x[key], where x is the tensor at stack index `index` and the key is at stack index `key`.
int PushIndexed(lua_State* L, int index, int key);

// Writes the value at stack index `value` to x[key], where x is the tensor at `index`.
void WriteIndexed(lua_State* L, int index, int key, int value);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_OPERATORS_INDEXING_H_
