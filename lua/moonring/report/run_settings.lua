--- Compares a run's configuration (training_args.yaml) with the default values, for a page.
local key_values = require "moonring.config.key_values"
local keys = require "moonring.config.keys"
local system = require "moonring.native.system"

---@class moonring.run_settings
local run_settings = {}

---@class moonring.RunSetting
---@field key string
---@field value string as in YAML
---@field default? string absent if the table of keys does not have the key
---@field changed boolean whether the value differs from the default
---@field section string

local function setting(row, value, section)
  return { key = row[1], value = key_values.show(value), default = key_values.show(row[3]),
    changed = not key_values.same(value, row[3]), section = section }
end

--- Lists the keys of a training_args.yaml in the order of the table of keys. Unknown keys come
--- last. Errors: INVALID_ARGUMENT if the text is not a YAML mapping.
---@param text string
---@param where string name of the file in errors
---@return moonring.RunSetting[]
function run_settings.of(text, where)
  local values, list = (system.yaml_decode(text, where)), {}
  if type(values) ~= "table" then return list end
  local known = {}
  for _, section in ipairs(keys) do
    for _, row in ipairs(section.rows) do
      local value = values[row[1]]
      if value ~= nil then
        known[row[1]], list[#list + 1] = true, setting(row, value, section.title)
      end
    end
  end
  local others = {}
  for name in pairs(values) do
    if not known[name] then others[#others + 1] = tostring(name) end
  end
  for _, name in ipairs(others) do
    list[#list + 1] = { key = name, value = key_values.show(values[name]), changed = true,
      section = "Others" }
  end
  return list
end

return run_settings
