---@meta moonring.pattern_compiler

--- What a Lua pattern says, for moonring.counted_patterns.
---@class moonring.pattern_compiler
local compiler = {}

--- A list of what is to be matched one after another: each `{ kind, ... }`. With it `anchored`, the number of `captures`, and what trying costs at the most: the number of repeats
--- without an end (`many`) and of "?" (`two`). An error where the pattern is malformed.
---@param pattern string as in the Lua 5.1 manual, section 5.4.1, with LuaJIT's %f
---@param anchors boolean whether a leading "^" is an anchor (for gmatch it is a character)
---@return table items
function compiler.items(pattern, anchors) end

return compiler
