--- string.find, match, gmatch and gsub for scripts with an instruction limit: every step of a match
-- is counted. Arguments that Lua's manual calls strings must be strings.
local sub, find, gsub, concat = string.sub, string.find, string.gsub, table.concat
local compiler = require "moonring.sandbox.pattern_compiler"
local matcher = require "moonring.sandbox.pattern_matcher"
local search = matcher.search

local function capture(s, c, first, last)
  if last[c] == "position" then return first[c] end
  return sub(s, first[c], last[c])
end

-- The captures of a match. If the pattern has no captures and `whole` is set, the whole match.
local function captures(s, items, begin, after, first, last, whole)
  if items.captures == 0 then
    if whole then return sub(s, begin, after - 1) end
    return
  end
  local list = {}
  for c = 1, items.captures do list[c] = capture(s, c, first, last) end
  return unpack(list, 1, items.captures)
end

-- The text by which gsub replaces one match.
local function replacement(s, items, begin, after, first, last, with)
  local whole, kind = sub(s, begin, after - 1), type(with)
  if kind == "string" then
    return (gsub(with, "%%(.?)", function(c)
      if not find(c, "^%d") then return c end
      if c == "0" or (c == "1" and items.captures == 0) then return whole end
      if tonumber(c) > items.captures then error("invalid capture index", 0) end
      return capture(s, tonumber(c), first, last)
    end))
  end
  local value
  if kind == "table" then
    value = with[(captures(s, items, begin, after, first, last, true))]
  else
    value = with(captures(s, items, begin, after, first, last, true))
  end
  if not value then return whole end
  if type(value) ~= "string" and type(value) ~= "number" then
    error(("invalid replacement value (a %s)"):format(type(value)), 0)
  end
  return value
end

local function begin_of(s, init)
  init = init or 1
  if init < 0 then init = math.max(#s + init + 1, 1) end
  return math.min(math.max(init, 1), #s + 1)
end

-- The functions
-- ------------------------------------------------------------

---@class moonring.counted_patterns
local counted = {}

--- Start and end of the first match, and its captures; nil if there is no match.
---@param s string
---@param pattern string
---@param init? integer
---@return integer? begin
---@return integer? last
---@return string|integer ... captures
function counted.find(s, pattern, init)
  local items = compiler.items(pattern, true)
  local begin, after, first, last = search(s, items, begin_of(s, init))
  if not begin then return nil end
  return begin, after - 1, captures(s, items, begin, after, first, last)
end

--- The captures of the first match, or the whole match if the pattern has none; nil if there is no
--- match.
---@param s string
---@param pattern string
---@param init? integer
---@return string|integer|nil ... captures, or the whole match
function counted.match(s, pattern, init)
  local items = compiler.items(pattern, true)
  local begin, after, first, last = search(s, items, begin_of(s, init))
  if not begin then return nil end
  return captures(s, items, begin, after, first, last, true)
end

--- An iterator over the matches. Each call returns what `match` returns.
---@param s string
---@param pattern string
---@return fun(): string|integer|nil, ... captures of the next match
function counted.gmatch(s, pattern)
  local items, i = compiler.items(pattern, false), 1
  return function()
    if i > #s + 1 then return nil end
    local begin, after, first, last = search(s, items, i)
    i = begin and (after == begin and after + 1 or after) or #s + 2
    if begin then return captures(s, items, begin, after, first, last, true) end
  end
end

--- Replaces the first `most` matches in a text (default: all). Returns the text and the number of
--- replacements.
---@param s string
---@param pattern string
---@param with string|table|function
---@param most? integer
---@return string text
---@return integer done
function counted.gsub(s, pattern, with, most)
  local items, out, i, done = compiler.items(pattern, true), {}, 1, 0
  while done < (most or math.huge) do
    local begin, after, first, last = search(s, items, i)
    if not begin then break end
    done = done + 1
    out[#out + 1] = sub(s, i, begin - 1)
    out[#out + 1] = replacement(s, items, begin, after, first, last, with)
    i = after
    if after == begin and begin <= #s then -- after an empty match, advance by one character
      out[#out + 1], i = sub(s, begin, begin), begin + 1
    elseif after == begin then
      break
    end
    if items.anchored then break end
  end
  out[#out + 1] = sub(s, i)
  return concat(out), done
end

return counted
