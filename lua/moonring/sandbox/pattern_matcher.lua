--- Searches a text for a compiled pattern and counts each step (lua/vm/counted_search.h). Used by
-- counted_patterns.lua.
local system = require "moonring.native.system"

---@class moonring.pattern_matcher
local matcher = {}

-- Splits the flat list of capture positions into a list of starts and a list of ends.
local function places(begin, after, ...)
  if not begin then return nil end
  local first, last = {}, {}
  for c = 1, select("#", ...) / 2 do
    local from, to = select(2 * c - 1, ...)
    first[c], last[c] = from, to == -1 and "position" or to
  end
  return begin, after, first, last
end

--- Finds the first match at position i or later. Returns its start, the position after its end, and
--- the starts and ends of its captures.
---@param s string
---@param items table from pattern_compiler
---@param i integer
---@return integer? begin nil if there is no match
---@return integer? after
---@return table? first start of each capture
---@return table? last end of each capture; "position" for a position capture
function matcher.search(s, items, i)
  return places(system.search_pattern(s, items.program, i, items.anchored, items.captures))
end

return matcher
