---@meta moonring.counted_patterns

--- string.find, match, gmatch and gsub, matched in Lua, where every step is an instruction that is counted (lua/limits.h). Strings and numbers as in the Lua 5.1 manual, section 5.4;
--- a malformed pattern is always an error.
---@class moonring.counted_patterns
local counted = {}

--- Where the first match begins and ends, and its captures; nil where there is none.
---@param s string
---@param pattern string
---@param init? integer
---@return integer? begin
---@return integer? last
---@return string|integer ... captures
function counted.find(s, pattern, init) end

--- The captures of the first match, or the whole of it where the pattern has none; nil where there is none.
---@param s string
---@param pattern string
---@param init? integer
---@return string|integer|nil ... captures, or the whole match
function counted.match(s, pattern, init) end

--- An iterator over the matches, each as match gives it.
---@param s string
---@param pattern string
---@return fun(): string|integer|nil, ... captures of one match after another
function counted.gmatch(s, pattern) end

--- The text with its matches, or the first `most` of them, replaced, and their number.
---@param s string
---@param pattern string
---@param with string|table|function
---@param most? integer
---@return string text
---@return integer done
function counted.gsub(s, pattern, with, most) end

return counted
