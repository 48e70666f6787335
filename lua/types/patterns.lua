---@meta moonring.patterns

--- string.find, match, gmatch and gsub, matched in Lua, where every step is an instruction that is counted (lua/limits.h). In a state with a limit on instructions, or that can be cancelled,
--- they stand in for LuaJIT's wherever a pattern could take more than a million steps over its text. A malformed pattern is always an error.
---@class moonring.patterns
---@field counted table<string, function> the four by name; strings and numbers as in the Lua 5.1 manual, section 5.4
local patterns = {}

--- For the host: puts them in LuaJIT's place.
function patterns.guard() end

return patterns
