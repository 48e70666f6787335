--- What may differ between a run and the one that it goes on from: by the column `resume` of the
-- keys' table.
local keys = require "moonring.config.keys"
local own_pieces = require "moonring.choices.custom_pieces"
local system = require "moonring.native.system"

---@class moonring.resume_changes
local resume_changes = {}

local PATHS = { model_name_or_path = true, ref_model = true, template = true }

--- A value in words. A list of one is written as its item, as a configuration may.
---@param value any
---@return string
function resume_changes.show(value)
  if value == nil then return "nothing" end
  if type(value) ~= "table" then return tostring(value) end
  local is_one = #value == 1 and type(value[1]) ~= "table"
  return is_one and tostring(value[1]) or system.json_encode(value)
end

local show = resume_changes.show

-- Whether two values of a key ask for the same: paths may be spelt in several ways.
local function same(name, a, b)
  if show(a) == show(b) or own_pieces.same(a, b) then return true end
  if not PATHS[name] or type(a) ~= "string" or type(b) ~= "string" then return false end
  return system.absolute(a) == system.absolute(b)
end

-- By key: whether it may change; and what it stands for where a record lacks it, as an older
-- version's does that did not know the key, or refused all but its default: the default. (Of a key
-- that may be null this cannot be told apart from null, which it was.)
local told, defaults = {}, {}
for row in keys.rows() do
  told[row[1]] = row.resume == "told"
  if row[3] ~= system.null and not row.nullable then defaults[row[1]] = row[3] end
end

local function value_of(record, name)
  if record[name] == nil then return defaults[name] end
  return record[name]
end

--- What a checkpoint remembers of a configuration: the value of each key that settles its numbers,
--- and the digest where it names a Lua file.
---@param c moonring.Configuration
---@return table<string, any>
function resume_changes.remembered(c)
  local values = {}
  for row in keys.rows() do
    if keys.acts(row) and row.resume ~= "free" then
      local mark = row.mark and c[row[1]] ~= nil and row.mark(c)
        or row.own_file and own_pieces.mark(c, row[1])
      values[row[1]] = mark or c[row[1]]
    end
  end
  values.data_seed = values.data_seed or values.seed
  return values
end

--- "cutoff_len was 512, is 1024", for each key that settles numbers; sorted.
---@param saved table<string, any> what `remembered` gave then
---@param c moonring.Configuration
---@return string[] may of those that may change
---@return string[] may_not
function resume_changes.between(saved, c)
  local may, may_not, now, names = {}, {}, resume_changes.remembered(c), {}
  now = system.json_decode(system.json_encode(now)) -- as a checkpoint has it: UTF-8 alone
  for name in pairs(saved) do names[name] = true end
  for name in pairs(now) do names[name] = true end
  for name in pairs(names) do
    local list = told[name] and may or may_not
    local before, after = value_of(saved, name), value_of(now, name)
    if not same(name, before, after) then
      list[#list + 1] = ("%s was %s, is %s"):format(name, show(before), show(after))
    end
  end
  table.sort(may)
  table.sort(may_not)
  return may, may_not
end

return resume_changes
