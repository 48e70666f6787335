#ifndef MOONRING_LUA_COUNTED_SEARCH_H_
#define MOONRING_LUA_COUNTED_SEARCH_H_

// Where a Lua pattern matches in a text, in a state whose instructions are counted (lua/limits.h):
// each step of the search counts as one, so that no pattern keeps it busy for ever.
//
// The pattern comes compiled (lua/moonring/sandbox/pattern_compiler.lua): items of kItemBytes each,
//
//   byte 0      its kind: 1 one of a set; * + - ? repeats of it; $ the text's end; ( and ) a
//               capture's begin and end; . a capture that is a place; b a balanced stretch; f a
//               frontier; = what a capture holds, again
//   bytes 1, 2  the capture's index, from 1; of b the two characters
//   bytes 3..   the set: bit c % 8 of byte c / 8 for each character c
//
// Cost: that of LuaJIT's own search, to a factor of two.

#include <lua.hpp>

namespace moonring::lua {

inline constexpr int kItemBytes = 35, kMostCaptures = 32;

// search_pattern(text, program, from, anchored, captures): where the first match at `from` or later
// begins (at `from` alone, where it is anchored), the place after it, and of each capture where it
// begins and ends, -1 of one that is a place; nil where there is none. From 1 on.
int SearchPattern(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_COUNTED_SEARCH_H_
