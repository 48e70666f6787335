#ifndef MOONRING_LUA_VM_COUNTED_SEARCH_H_
#define MOONRING_LUA_VM_COUNTED_SEARCH_H_

// Searches for a Lua pattern in a text, in a state whose instructions are counted
// (lua/vm/limits.h): each step of the search counts as one instruction, so that no pattern can run
// forever.
//
// The pattern is compiled by lua/moonring/sandbox/pattern_compiler.lua to items of kItemBytes each:
//
//   byte 0      the kind: 1 one character of a set; * + - ? repetitions of it; $ the text's end;
//               ( and ) begin and end of a capture; . a position capture; b a balanced match; f a
//               frontier; = a back-reference
//   bytes 1, 2  the capture's index, from 1; for b the two characters
//   bytes 3..   the set: bit c % 8 of byte c / 8 for each character c
//
// Cost: that of LuaJIT's own search, within a factor of two.

#include <lua.hpp>

namespace moonring::lua {

inline constexpr int kItemBytes = 35, kMostCaptures = 32;

// The Lua function search_pattern(text, program, from, anchored, captures). Returns the start of
// the first match at `from` or later (only at `from` if anchored), the position after the match,
// and start and end of each capture, with -1 as the end of a position capture; nil without a match.
// Positions count from 1.
int SearchPattern(lua_State* L);

}  // namespace moonring::lua

#endif  // MOONRING_LUA_VM_COUNTED_SEARCH_H_
