---@meta moonring.patterns

--- string.find, match, gmatch, gsub and table.sort of a state with a limit on instructions, or that can be cancelled (lua/limits.h): moonring.counted_patterns stands in for LuaJIT's
--- wherever a pattern could take more than ten million steps over its text, and long lists are sorted in Lua. A malformed pattern is always an error then.
---@class moonring.patterns
local patterns = {}

--- For the host: puts them in LuaJIT's place.
function patterns.guard() end

return patterns
