--- Where a compiled pattern matches in a text, each step counted: the search of counted_patterns,
-- as lua/counted_search.h makes it.
local system = require "moonring.native.system"

---@class moonring.pattern_matcher
local matcher = {}

-- Places of captures as two lists.
local function places(begin, after, ...)
  if not begin then return nil end
  local first, last = {}, {}
  for c = 1, select("#", ...) / 2 do
    local from, to = select(2 * c - 1, ...)
    first[c], last[c] = from, to == -1 and "position" or to
  end
  return begin, after, first, last
end

--- The first match at i or later: where it begins, the place after it, and its captures' places.
---@param s string
---@param items table what pattern_compiler gave
---@param i integer
---@return integer? begin nil where there is none
---@return integer? after
---@return table? first where each capture begins
---@return table? last where each capture ends; "position" of one that is a place
function matcher.search(s, items, i)
  return places(system.search_pattern(s, items.program, i, items.anchored, items.captures))
end

return matcher
