--- Traversal of tables in an order that is the same on every rank and in every run: positive
-- integers, ascending; other numbers, ascending; strings, by bytes; false, true; then all other
-- keys in LuaJIT's order. LuaJIT's own order of strings differs between processes, so a collective
-- in a loop over named losses would meet another loss on another rank.
--
-- The host installs these functions as `pairs`, `next` and `table.foreach` before any other module
-- is loaded (lua/vm/key_order.h).

---@class moonring.key_order
local key_order = {}

local next, rawget, type, error, floor = next, rawget, type, error, math.floor

-- Below it, n + 1 differs from n for every integer n.
local LAST = 2 ^ 53

-- Native: the keys of a table after a given key, in order; and its first key.
local sorted_keys, first_key

local function check(name, of)
  if type(of) == "table" then return end
  error(("bad argument #1 to '%s' (table expected, got %s)"):format(name,
    of == nil and "nil" or type(of)), 3)
end

-- Whether LuaJIT visits the keys in order: 1, 2, .. n, or one key.
local function is_in_order(of)
  local n = 0
  for key in next, of do
    n = n + 1
    if key ~= n then return n == 1 and next(of, key) == nil end
  end
  return true
end

-- A traversal: the keys that the table had when it began. Keys that were removed since are skipped.
---@class moonring.KeyWalk
---@field of table
---@field keys any[]
---@field at integer

local function step(walk)
  local of, keys, at = walk.of, walk.keys, walk.at
  while true do
    at = at + 1
    local key = keys[at]
    if key == nil then return nil end
    local value = rawget(of, key)
    if value ~= nil then
      walk.at = at
      return key, value
    end
  end
end

-- `pairs` never returns LuaJIT's own `next`: LuaJIT specializes a loop that receives it, and if a
-- later run of that loop receives `step`, the compiled code may leave out keys.
local function plain_step(of, key) return next(of, key) end

local function ordered_pairs(of)
  check("pairs", of)
  if is_in_order(of) then return plain_step, of, nil end
  return step, { of = of, keys = sorted_keys(of), at = 0 }, nil
end

-- The last traversal of each table by `next`, whose arguments cannot hold it. The table is weak: a
-- garbage collection removes a traversal, and the next call of `next` makes it again.
---@type table<table, moonring.KeyWalk>
local walks = setmetatable({}, { __mode = "kv" })

local function begin(of)
  if walks[of] then walks[of] = nil end
  local first, value = next(of)
  if first == nil or first == 1 or next(of, first) == nil then return first, value end
  first = first_key(of)
  return first, rawget(of, first)
end

local function ordered_next(of, key)
  check("next", of)
  if key == nil then return begin(of) end
  if type(key) == "number" and key >= 1 and key < LAST and floor(key) == key then
    local value = rawget(of, key + 1)
    if value ~= nil then return key + 1, value end
  end
  local walk = walks[of]
  if not walk or walk.keys[walk.at] ~= key then
    walk = { of = of, keys = sorted_keys(of, key), at = 0 }
    walks[of] = walk
  end
  return step(walk)
end

local function foreach(of, visit)
  check("foreach", of)
  for key, value in ordered_pairs(of) do
    local result = visit(key, value)
    if result ~= nil then return result end
  end
end

--- Replaces Lua's functions. The arguments are the native functions.
---@param sorted fun(of: table, after: any): any[]
---@param first fun(of: table): any
function key_order.install(sorted, first)
  sorted_keys, first_key = sorted, first
  local replaced = { [_G] = { pairs = ordered_pairs, next = ordered_next },
    [table] = { foreach = foreach } }
  for library, functions in next, replaced do
    for name, f in next, functions do library[name] = f end
  end
end

return key_order
