--- string.find, match, gmatch, gsub and table.sort for a Lua state with an instruction limit.
-- LuaJIT does not count instructions within one call of these functions, and a pattern such as
-- ".*.*.*x" can take practically forever. Potentially slow patterns are matched by code that counts
-- its steps; all others by LuaJIT.
local compiler, counted = require "moonring.sandbox.pattern_compiler",
  require "moonring.sandbox.counted_patterns"
local system = require "moonring.native.system"

---@class moonring.patterns
local patterns = {}

local raw = { find = string.find, match = string.match, gmatch = string.gmatch, gsub = string.gsub }

local STEPS = 1e7 -- limit for one call of LuaJIT: some milliseconds

-- Whether LuaJIT matches a pattern fast enough even in the worst case. Each attempt may read the
-- whole pattern (a class of many characters).
local function is_quick(s, pattern, anchors)
  if not raw.find(pattern, "[*+?-]") and not raw.find(pattern, "%%[b%d]") then
    return (#s + 1) * #pattern <= STEPS
  end
  if #pattern > STEPS then return false end
  local items = compiler.items(pattern, anchors)
  return (#s + 1) ^ (items.many + (items.anchored and 0 or 1)) * 2 ^ items.two * #pattern <= STEPS
end

-- Finds a long text in another long text in linear time; LuaJIT would compare at each position.
local function find_text(s, sought, init)
  init = init or 1
  if init < 0 then init = math.max(#s + init + 1, 1) end
  local at = system.find_text(s, sought, math.max(init, 1))
  if not at then return nil end
  return at, at + #sought - 1
end

-- Converts numbers to strings; values of other types go to LuaJIT, which raises the error.
local function text(value) return type(value) == "number" and tostring(value) or value end
local function are_strings(s, pattern) return type(s) == "string" and type(pattern) == "string" end

-- The functions that replace four functions of `string`.
local guarded = {}

function guarded.find(s, pattern, init, plain)
  s, pattern = text(s), text(pattern)
  if are_strings(s, pattern) and type(init or 1) == "number" and (#s + 1) * #pattern > STEPS
    and (plain or not raw.find(pattern, "[%^%$%*%+%?%.%(%[%%%-]")) then
    return find_text(s, pattern, init)
  end
  local is_ours = not plain and are_strings(s, pattern) and type(init or 1) == "number"
    and not is_quick(s, pattern, true)
  return (is_ours and counted.find or raw.find)(s, pattern, init, plain)
end

function guarded.match(s, pattern, init)
  s, pattern = text(s), text(pattern)
  local is_ours = are_strings(s, pattern) and type(init or 1) == "number"
    and not is_quick(s, pattern, true)
  return (is_ours and counted.match or raw.match)(s, pattern, init)
end

function guarded.gmatch(s, pattern)
  s, pattern = text(s), text(pattern)
  return (are_strings(s, pattern) and not is_quick(s, pattern, false) and counted.gmatch
    or raw.gmatch)(s, pattern)
end

function guarded.gsub(s, pattern, with, most)
  s, pattern, with = text(s), text(pattern), text(with)
  local kind = type(with)
  local is_ours = are_strings(s, pattern) and (kind == "string" or kind == "table"
    or kind == "function") and type(most or 1) == "number" and not is_quick(s, pattern, true)
  return (is_ours and counted.gsub or raw.gsub)(s, pattern, with, most)
end

-- List size up to which LuaJIT's quicksort is fast even in its worst case.
local MANY = 1000
local raw_sort = table.sort

-- Bottom-up merge sort: n log2 n comparisons, each counted.
local function sort(list, less)
  local n = #list
  if n <= MANY then return raw_sort(list, less) end
  less = less or function(a, b) return a < b end
  local from, to, width = list, {}, 1
  while width < n do
    for low = 1, n, 2 * width do
      local i, middle, high = low, math.min(low + width, n + 1), math.min(low + 2 * width, n + 1)
      local j = middle
      for k = low, high - 1 do
        if i < middle and (j >= high or not less(from[j], from[i])) then
          to[k], i = from[i], i + 1
        else
          to[k], j = from[j], j + 1
        end
      end
    end
    from, to, width = to, from, 2 * width
  end
  if from ~= list then
    for i = 1, n do list[i] = from[i] end
  end
end

--- Installs these functions in place of Lua's. Called by the host.
function patterns.guard()
  for name, f in pairs(guarded) do string[name] = f end
  table.sort = sort
end

return patterns
