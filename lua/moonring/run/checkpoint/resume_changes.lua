--- Compares the configuration of a run with that of the run it resumes. The table of keys
-- (config/keys) states in its column `resume` which keys may change.
local keys = require "moonring.config.keys"
local custom_pieces = require "moonring.choices.custom_pieces"
local system = require "moonring.native.system"

---@class moonring.resume_changes
local resume_changes = {}

local PATHS = { model_name_or_path = true, ref_model = true, template = true }

--- A value as text. A list of one item is shown as the item, as a configuration may write it.
---@param value any
---@return string
function resume_changes.show(value)
  if value == nil then return "nothing" end
  if type(value) ~= "table" then return tostring(value) end
  local is_one = #value == 1 and type(value[1]) ~= "table"
  return is_one and tostring(value[1]) or system.json_encode(value)
end

local show = resume_changes.show

-- Whether two values of a key mean the same, such as two spellings of one path.
local function same(name, a, b)
  if show(a) == show(b) or custom_pieces.same(a, b) then return true end
  if not PATHS[name] or type(a) ~= "string" or type(b) ~= "string" then return false end
  return system.absolute(a) == system.absolute(b)
end

-- By key: `told`, whether the key may change with a note; `defaults`, its default. A checkpoint of
-- an older version may lack a key, which then had its default. (If null is a valid value, a missing
-- key means null.)
local told, defaults = {}, {}
for row in keys.rows() do
  told[row[1]] = row.resume == "told"
  if row[3] ~= system.null and not row.nullable then defaults[row[1]] = row[3] end
end

local function value_of(record, name)
  if record[name] == nil then return defaults[name] end
  return record[name]
end

--- The values that a checkpoint records: those of every key that affects results. If the value
--- names a Lua file, the file's digest is recorded.
---@param c moonring.Configuration
---@return table<string, any>
function resume_changes.remembered(c)
  local values = {}
  for row in keys.rows() do
    if keys.acts(row) and row.resume ~= "free" then
      local mark = row.mark and c[row[1]] ~= nil and row.mark(c)
        or row.own_file and custom_pieces.mark(c, row[1])
      values[row[1]] = mark or c[row[1]]
    end
  end
  values.data_seed = values.data_seed or values.seed
  return values
end

--- Changes of keys that affect results, as "cutoff_len was 512, is 1024"; sorted.
---@param saved table<string, any> an earlier result of `remembered`
---@param c moonring.Configuration
---@return string[] may changes of keys that may change
---@return string[] may_not
function resume_changes.between(saved, c)
  local may, may_not, now, names = {}, {}, resume_changes.remembered(c), {}
  now = system.json_decode(system.json_encode(now)) -- as in a checkpoint: only valid UTF-8
  for name in pairs(saved) do names[name] = true end
  for name in pairs(now) do names[name] = true end
  for name in pairs(names) do
    local list = told[name] and may or may_not
    local before, after = value_of(saved, name), value_of(now, name)
    if not same(name, before, after) then
      list[#list + 1] = ("%s was %s, is %s"):format(name, show(before), show(after))
    end
  end
  return may, may_not
end

return resume_changes
