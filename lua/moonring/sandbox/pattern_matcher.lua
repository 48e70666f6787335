--- Where the items of a compiled pattern match in a text, with every step in Lua: the search of
-- counted_patterns.
local byte, sub = string.byte, string.sub

---@class moonring.pattern_matcher
local matcher = {}

-- The place after the end of a balanced stretch that begins at i.
local function balanced(s, i, left, right)
  if byte(s, i) ~= left then return nil end
  local depth = 1
  for k = i + 1, #s do
    local b = byte(s, k)
    if b == right then
      depth = depth - 1
      if depth == 0 then return k + 1 end
    elseif b == left then
      depth = depth + 1
    end
  end
end

--- The place after a match of items p and on at i, nil where there is none. first[c], last[c]:
--- where capture c begins and ends; last is "position" of one that is a place.
---@param s string
---@param items table
---@param i integer
---@param p integer
---@param first table
---@param last table
---@return integer?
function matcher.match_from(s, items, i, p, first, last)
  while true do
    local item = items[p]
    if not item then return i end
    local kind, set = item.kind, item.set
    if kind == "one" then
      if not set[byte(s, i)] then return nil end
      i = i + 1
    elseif kind == "?" then
      local after = set[byte(s, i)] and matcher.match_from(s, items, i + 1, p + 1, first, last)
      if after then return after end
    elseif kind == "-" then
      while true do
        local after = matcher.match_from(s, items, i, p + 1, first, last)
        if after then return after end
        if not set[byte(s, i)] then return nil end
        i = i + 1
      end
    elseif kind == "*" or kind == "+" then
      local most = i
      while set[byte(s, most)] do most = most + 1 end
      for k = most, kind == "+" and i + 1 or i, -1 do
        local after = matcher.match_from(s, items, k, p + 1, first, last)
        if after then return after end
      end
      return nil
    elseif kind == "end" then
      if i ~= #s + 1 then return nil end
    elseif kind == "open" then
      local before = first[item.index]
      first[item.index] = i
      local after = matcher.match_from(s, items, i, p + 1, first, last)
      if not after then first[item.index] = before end
      return after
    elseif kind == "close" or kind == "position" then
      local c = item.index
      local before_first, before_last = first[c], last[c]
      if kind == "position" then first[c], last[c] = i, "position" else last[c] = i - 1 end
      local after = matcher.match_from(s, items, i, p + 1, first, last)
      if not after then first[c], last[c] = before_first, before_last end
      return after
    elseif kind == "balance" then
      i = balanced(s, i, item[1], item[2])
      if not i then return nil end
    elseif kind == "frontier" then
      if set[byte(s, i - 1) or 0] or not set[byte(s, i) or 0] then return nil end
    else -- again
      local c = item.index
      if last[c] == "position" then return nil end
      local length = last[c] - first[c] + 1
      if sub(s, first[c], last[c]) ~= sub(s, i, i + length - 1) then return nil end
      i = i + length
    end
    p = p + 1
  end
end

--- The first match at i or later: where it begins, the place after it, and its captures' places.
---@param s string
---@param items table what pattern_compiler gave
---@param i integer
---@return integer? begin nil where there is none
---@return integer? after
---@return table? first where each capture begins
---@return table? last where each capture ends
function matcher.search(s, items, i)
  repeat
    local first, last = {}, {}
    local after = matcher.match_from(s, items, i, 1, first, last)
    if after then return i, after, first, last end
    i = i + 1
  until items.anchored or i > #s + 1
end

return matcher
