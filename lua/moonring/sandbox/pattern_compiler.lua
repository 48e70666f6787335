--- Compiles a pattern of Lua 5.1 (manual, 5.4.1), with LuaJIT's frontier %f, to a program for
-- lua/vm/counted_search.h, which documents the encoding. Malformed patterns are always errors.
local byte, char, sub, find, match = string.byte, string.char, string.sub, string.find, string.match

local KEPT = 200 -- cached patterns
local CAPTURES = 32
local NOTHING = ("\0"):rep(32) -- the empty set of characters

local function malformed(why) error("malformed pattern (" .. why .. ")", 0) end

-- The set of bytes matched by a character class, as a 32-byte bit map.
local function class_set(text)
  local set, pattern = {}, "^" .. text
  for first = 0, 255, 8 do
    local bits = 0
    for b = 0, 7 do
      if find(char(first + b), pattern) then bits = bits + 2 ^ b end
    end
    set[#set + 1] = char(bits)
  end
  return table.concat(set)
end

local function byte_set(b)
  local before = math.floor(b / 8)
  return NOTHING:sub(1, before) .. char(2 ^ (b % 8)) .. NOTHING:sub(before + 2)
end

-- The position after the class that begins at i, including its "]" or escape.
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
  local set = sets[text] or (#text == 1 and text ~= "." and byte_set(byte(text)))
    or class_set(text)
  sets[text] = set
  return set
end

local function compile(pattern, anchors)
  pattern = match(pattern, "^%Z*") -- as in LuaJIT, a zero byte ends it
  local items, i, opened, closed = { many = 0, two = 0, anchored = false }, 1, {}, {}
  if anchors and sub(pattern, 1, 1) == "^" then items.anchored, i = true, 2 end
  local program = {}
  local function add(kind, next, set, a, b)
    program[#program + 1] = kind .. char(math.min(a or 0, 255), b or 0) .. (set or NOTHING)
    i = next
  end
  while i <= #pattern do
    local two, first = sub(pattern, i, i + 1), sub(pattern, i, i)
    if two == "()" then
      closed[#closed + 1] = true
      add(".", i + 2, nil, #closed)
    elseif first == "(" then
      closed[#closed + 1] = false
      opened[#opened + 1] = #closed
      add("(", i + 1, nil, #closed)
    elseif first == ")" then
      local index = table.remove(opened) or error("invalid pattern capture", 0)
      closed[index] = true
      add(")", i + 1, nil, index)
    elseif first == "$" and i == #pattern then
      add("$", i + 1)
    elseif two == "%b" then
      if i + 3 > #pattern then malformed "missing arguments to '%b'" end
      items.many = items.many + 1
      add("b", i + 4, nil, byte(pattern, i + 2, i + 3))
    elseif two == "%f" then
      if sub(pattern, i + 2, i + 2) ~= "[" then error("missing '[' after '%f' in pattern", 0) end
      local after = class_end(pattern, i + 2)
      add("f", after, single(sub(pattern, i + 2, after - 1)))
    elseif find(two, "^%%%d") then
      local index = tonumber(sub(two, 2))
      if not closed[index] then error("invalid capture index", 0) end
      items.many = items.many + 1
      add("=", i + 2, nil, index)
    else
      local after = class_end(pattern, i)
      local set, repeats = single(sub(pattern, i, after - 1)),
        match(sub(pattern, after, after), "[*+?-]")
      if repeats == "?" then items.two = items.two + 1 elseif repeats then
        items.many = items.many + 1
      end
      add(repeats or "1", after + (repeats and 1 or 0), set)
    end
  end
  if #opened > 0 then error("unfinished capture", 0) end
  if #closed > CAPTURES then error("too many captures", 0) end
  items.captures, items.program = #closed, table.concat(program)
  return items
end

--- Compiled patterns for moonring.sandbox.counted_patterns.
---@class moonring.pattern_compiler
local compiler = {}

local kept, count = { [true] = {}, [false] = {} }, 0

--- Compiles a pattern. Returns a table: `program`; `anchored`; the number of `captures`; and two
--- numbers that bound the cost of a search, `many` (unbounded repetitions) and `two` (uses of "?").
--- `anchors`: whether a leading "^" is an anchor; for gmatch it is an ordinary character. Raises an
--- error if the pattern is malformed.
---@param pattern string as in the Lua 5.1 manual, section 5.4.1, with LuaJIT's %f
---@param anchors boolean
---@return table items
function compiler.items(pattern, anchors)
  local items = kept[anchors][pattern]
  if not items then
    if count == KEPT then kept, sets, count = { [true] = {}, [false] = {} }, {}, 0 end
    items = compile(pattern, anchors)
    kept[anchors][pattern], count = items, count + 1
  end
  return items
end

return compiler
