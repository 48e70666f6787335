--- string.find, match, gmatch and gsub of a state whose instructions are counted: LuaJIT counts no instructions within one call, and a pattern such as ".*.*.*x" can keep one
--- busy for ever. So what could take long is matched in Lua, where each step counts; all else by LuaJIT.
local compiler, counted = require "moonring.pattern_compiler", require "moonring.counted_patterns"

local patterns = {}

local raw = { find = string.find, match = string.match, gmatch = string.gmatch, gsub = string.gsub }

local STEPS = 1e6 -- of one call, that LuaJIT may take: a few milliseconds

-- Whether LuaJIT is through soon, whatever the pattern makes it try.
local function is_quick(s, pattern, anchors)
  if not raw.find(pattern, "[*+?-]") and not raw.find(pattern, "%%[b%d]") then return true end
  local items = compiler.items(pattern, anchors)
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
  return (is_ours and counted.find or raw.find)(s, pattern, init, plain)
end

function guarded.match(s, pattern, init)
  s, pattern = text(s), text(pattern)
  local is_ours = are_strings(s, pattern) and type(init or 1) == "number" and not is_quick(s, pattern, true)
  return (is_ours and counted.match or raw.match)(s, pattern, init)
end

function guarded.gmatch(s, pattern)
  s, pattern = text(s), text(pattern)
  return (are_strings(s, pattern) and not is_quick(s, pattern, false) and counted.gmatch or raw.gmatch)(s, pattern)
end

function guarded.gsub(s, pattern, with, most)
  s, pattern, with = text(s), text(pattern), text(with)
  local kind = type(with)
  local is_ours = are_strings(s, pattern) and (kind == "string" or kind == "table" or kind == "function") and type(most or 1) == "number" and not is_quick(s, pattern, true)
  return (is_ours and counted.gsub or raw.gsub)(s, pattern, with, most)
end

--- Puts them in LuaJIT's place. Once a state, before any script.
function patterns.guard()
  for name, f in pairs(guarded) do string[name] = f end
end

return patterns
