--- string.find, match, gmatch and gsub of a state whose instructions are counted: LuaJIT counts no instructions within one call, and a pattern such as ".*.*.*x" can keep one busy for ever. So what could
-- take long is matched here, in Lua, where each step counts; all else by LuaJIT. Patterns are the Lua 5.1 manual's (5.4.1) with LuaJIT's frontier %f. A malformed one is always an
-- error, LuaJIT's only where a match comes so far.
local byte, char, sub, concat = string.byte, string.char, string.sub, table.concat

local patterns = {}

local raw = { find = string.find, match = string.match, gmatch = string.gmatch, gsub = string.gsub }

local STEPS = 1e6 -- of one call, that LuaJIT may take: a few milliseconds
local KEPT = 200 -- compiled patterns
local CAPTURES = 32

-- Compiling ------------------------------------------------------------------------------------------------------------------------------------------------------

local function malformed(why) error("malformed pattern (" .. why .. ")", 0) end

-- The bytes that a class of one character holds.
local function class_set(text)
  local set, pattern = {}, "^" .. text
  for b = 0, 255 do set[b] = raw.find(char(b), pattern) ~= nil end
  return set
end

-- Where the class that begins at i ends, after its "]" or its escape.
local function class_end(pattern, i)
  local first = sub(pattern, i, i)
  if first == "%" then
    if i == #pattern then malformed "ends with '%'" end
    return i + 2
  end
  if first ~= "[" then return i + 1 end
  i = i + 1
  if sub(pattern, i, i) == "^" then i = i + 1 end
  repeat
    if i > #pattern then malformed "missing ']'" end
    i = i + (sub(pattern, i, i) == "%" and 2 or 1)
  until sub(pattern, i, i) == "]"
  return i + 1
end

local sets = {}

local function single(text)
  local set = sets[text] or (#text == 1 and text ~= "." and { [byte(text)] = true }) or class_set(text)
  sets[text] = set
  return set
end

-- A list of { kind, ... } and what they cost: of repeats without an end (many) and of "?" (two).
local function compile(pattern, anchors)
  pattern = raw.match(pattern, "^%Z*") -- LuaJIT too takes a zero byte for its end
  local items, i, opened, closed = { many = 0, two = 0 }, 1, {}, {}
  if anchors and sub(pattern, 1, 1) == "^" then items.anchored, i = true, 2 end
  local function add(kind, next, item)
    item = item or {}
    item.kind = kind
    items[#items + 1] = item
    i = next
  end
  while i <= #pattern do
    local two, first = sub(pattern, i, i + 1), sub(pattern, i, i)
    if two == "()" then
      closed[#closed + 1] = true
      add("position", i + 2, { index = #closed })
    elseif first == "(" then
      closed[#closed + 1] = false
      opened[#opened + 1] = #closed
      add("open", i + 1, { index = #closed })
    elseif first == ")" then
      local index = table.remove(opened) or error("invalid pattern capture", 0)
      closed[index] = true
      add("close", i + 1, { index = index })
    elseif first == "$" and i == #pattern then
      add("end", i + 1)
    elseif two == "%b" then
      if i + 3 > #pattern then malformed "missing arguments to '%b'" end
      items.many = items.many + 1
      add("balance", i + 4, { byte(pattern, i + 2, i + 3) })
    elseif two == "%f" then
      if sub(pattern, i + 2, i + 2) ~= "[" then error("missing '[' after '%f' in pattern", 0) end
      local after = class_end(pattern, i + 2)
      add("frontier", after, { set = single(sub(pattern, i + 2, after - 1)) })
    elseif raw.find(two, "^%%%d") then
      local index = tonumber(sub(two, 2))
      if not closed[index] then error("invalid capture index", 0) end
      items.many = items.many + 1
      add("again", i + 2, { index = index })
    else
      local after = class_end(pattern, i)
      local set, repeats = single(sub(pattern, i, after - 1)), raw.match(sub(pattern, after, after), "[*+?-]")
      if repeats == "?" then items.two = items.two + 1 elseif repeats then items.many = items.many + 1 end
      add(repeats or "one", after + (repeats and 1 or 0), { set = set })
    end
  end
  if #opened > 0 then error("unfinished capture", 0) end
  if #closed > CAPTURES then error("too many captures", 0) end
  items.captures = #closed
  return items
end

local kept, count = {}, 0

local function compiled(pattern, anchors)
  local key = anchors and pattern or pattern .. "\0g"
  local items = kept[key]
  if not items then
    if count == KEPT then kept, sets, count = {}, {}, 0 end
    items = compile(pattern, anchors)
    kept[key], count = items, count + 1
  end
  return items
end

-- Matching -------------------------------------------------------------------------------------------------------------------------------------------------------

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

-- The place after a match of items p and on at i, nil where there is none. first[c], last[c]: where capture c begins and ends; last is "position" of one that is a place.
local function match_from(s, items, i, p, first, last)
  while true do
    local item = items[p]
    if not item then return i end
    local kind, set = item.kind, item.set
    if kind == "one" then
      if not set[byte(s, i)] then return nil end
      i = i + 1
    elseif kind == "?" then
      local after = set[byte(s, i)] and match_from(s, items, i + 1, p + 1, first, last)
      if after then return after end
    elseif kind == "-" then
      while true do
        local after = match_from(s, items, i, p + 1, first, last)
        if after then return after end
        if not set[byte(s, i)] then return nil end
        i = i + 1
      end
    elseif kind == "*" or kind == "+" then
      local most = i
      while set[byte(s, most)] do most = most + 1 end
      for k = most, kind == "+" and i + 1 or i, -1 do
        local after = match_from(s, items, k, p + 1, first, last)
        if after then return after end
      end
      return nil
    elseif kind == "end" then
      if i ~= #s + 1 then return nil end
    elseif kind == "open" then
      local before = first[item.index]
      first[item.index] = i
      local after = match_from(s, items, i, p + 1, first, last)
      if not after then first[item.index] = before end
      return after
    elseif kind == "close" or kind == "position" then
      local c = item.index
      local before_first, before_last = first[c], last[c]
      if kind == "position" then first[c], last[c] = i, "position" else last[c] = i - 1 end
      local after = match_from(s, items, i, p + 1, first, last)
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

-- The first match at i or later: where it begins, the place after it, and its captures' places.
local function search(s, items, i)
  repeat
    local first, last = {}, {}
    local after = match_from(s, items, i, 1, first, last)
    if after then return i, after, first, last end
    i = i + 1
  until items.anchored or i > #s + 1
end

local function capture(s, c, first, last)
  if last[c] == "position" then return first[c] end
  return sub(s, first[c], last[c])
end

-- The captures of a match; of one without any the whole of it, where that is wanted.
local function captures(s, items, begin, after, first, last, whole)
  if items.captures == 0 then
    if whole then return sub(s, begin, after - 1) end
    return
  end
  local list = {}
  for c = 1, items.captures do list[c] = capture(s, c, first, last) end
  return unpack(list, 1, items.captures)
end

-- What stands for a match in gsub's result.
local function replacement(s, items, begin, after, first, last, with)
  local whole, kind = sub(s, begin, after - 1), type(with)
  if kind == "string" then
    return (raw.gsub(with, "%%(.?)", function(c)
      if not raw.find(c, "^%d") then return c end
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
  if type(value) ~= "string" and type(value) ~= "number" then error(("invalid replacement value (a %s)"):format(type(value)), 0) end
  return value
end

local function begin_of(s, init)
  init = init or 1
  if init < 0 then init = math.max(#s + init + 1, 1) end
  return math.min(math.max(init, 1), #s + 1)
end

--- The four functions with every step in Lua. Strings where the manual has strings.
patterns.counted = {}

function patterns.counted.find(s, pattern, init)
  local items = compiled(pattern, true)
  local begin, after, first, last = search(s, items, begin_of(s, init))
  if not begin then return nil end
  return begin, after - 1, captures(s, items, begin, after, first, last)
end

function patterns.counted.match(s, pattern, init)
  local items = compiled(pattern, true)
  local begin, after, first, last = search(s, items, begin_of(s, init))
  if not begin then return nil end
  return captures(s, items, begin, after, first, last, true)
end

function patterns.counted.gmatch(s, pattern)
  local items, i = compiled(pattern, false), 1
  return function()
    if i > #s + 1 then return nil end
    local begin, after, first, last = search(s, items, i)
    i = begin and (after == begin and after + 1 or after) or #s + 2
    if begin then return captures(s, items, begin, after, first, last, true) end
  end
end

function patterns.counted.gsub(s, pattern, with, most)
  local items, out, i, done = compiled(pattern, true), {}, 1, 0
  while done < (most or math.huge) do
    local first, last = {}, {}
    local after = match_from(s, items, i, 1, first, last)
    if after then
      done = done + 1
      out[#out + 1] = replacement(s, items, i, after, first, last, with)
    end
    if after and after > i then
      i = after
    elseif i <= #s then
      out[#out + 1], i = sub(s, i, i), i + 1
    else
      break
    end
    if items.anchored then break end
  end
  out[#out + 1] = sub(s, i)
  return concat(out), done
end

-- Choosing -------------------------------------------------------------------------------------------------------------------------------------------------------

-- Whether LuaJIT is through soon, whatever the pattern makes it try.
local function is_quick(s, pattern, anchors)
  if not raw.find(pattern, "[*+?-]") and not raw.find(pattern, "%%[b%d]") then return true end
  local items = compiled(pattern, anchors)
  return (#s + 1) ^ (items.many + (items.anchored and 0 or 1)) * 2 ^ items.two <= STEPS
end

-- Numbers are strings here; what is neither goes to LuaJIT, which says so.
local function text(value) return type(value) == "number" and tostring(value) or value end
local function are_strings(s, pattern) return type(s) == "string" and type(pattern) == "string" end

-- The four functions as a state has them then.
local guarded = {}

function guarded.find(s, pattern, init, plain)
  s, pattern = text(s), text(pattern)
  local is_ours = not plain and are_strings(s, pattern) and type(init or 1) == "number" and not is_quick(s, pattern, true)
  return (is_ours and patterns.counted.find or raw.find)(s, pattern, init, plain)
end

function guarded.match(s, pattern, init)
  s, pattern = text(s), text(pattern)
  local is_ours = are_strings(s, pattern) and type(init or 1) == "number" and not is_quick(s, pattern, true)
  return (is_ours and patterns.counted.match or raw.match)(s, pattern, init)
end

function guarded.gmatch(s, pattern)
  s, pattern = text(s), text(pattern)
  return (are_strings(s, pattern) and not is_quick(s, pattern, false) and patterns.counted.gmatch or raw.gmatch)(s, pattern)
end

function guarded.gsub(s, pattern, with, most)
  s, pattern, with = text(s), text(pattern), text(with)
  local kind = type(with)
  local is_ours = are_strings(s, pattern) and (kind == "string" or kind == "table" or kind == "function") and type(most or 1) == "number" and not is_quick(s, pattern, true)
  return (is_ours and patterns.counted.gsub or raw.gsub)(s, pattern, with, most)
end

--- Puts them in LuaJIT's place. Once a state, before any script.
function patterns.guard()
  for name, f in pairs(guarded) do string[name] = f end
end

return patterns
