--- Reads settings of other training engines from a file or map (keys deepspeed, fsdp_config,
-- accelerator_config). A setting is converted to a key, or refused by name, or has no effect; a
-- note then states the reason. Unknown settings are refused, because their effect is unknown.
-- "auto" and null count as not set.
local errors = require "moonring.base.errors"
local key_values = require "moonring.config.key_values"
local system = require "moonring.native.system"

---@class moonring.engine_settings
local engine_settings = {}

--- The settings in the file or map of one key. A setting is named by its path, such as
--- "zero_optimization.stage".
---@class moonring.EngineSettings
---@field c moonring.Configuration
---@field key string
---@field name string the file, or "the settings"
---@field values table
---@field looked_at table<string, true> paths that were read
local EngineSettings = {}
EngineSettings.__index = EngineSettings

local function show(value)
  return type(value) == "table" and system.json_encode(value) or tostring(value)
end

local function same(a, b)
  if type(a) == "table" then
    return type(b) == "table" and #a == #b and same(a[1], b[1]) and same(a[2], b[2])
  end
  return a == b or (tonumber(a) ~= nil and tonumber(a) == tonumber(b))
end

--- Reads the file or map of a key. Errors: INVALID_ARGUMENT, naming the key and the file.
---@param c moonring.Configuration
---@param key string
---@return moonring.EngineSettings? settings nil if the key is absent
function engine_settings.open(c, key)
  local given = c[key]
  if given == nil then return nil end
  local self = setmetatable({ c = c, key = key, name = "the settings", values = given,
    looked_at = {} }, EngineSettings)
  if type(given) ~= "table" then
    if type(given) ~= "string" then
      errors.fail(key, ": expected a file or an object of settings, got ", show(given))
    end
    self.name = given
    local decode = given:find "%.ya?ml$" and system.yaml_decode or system.json_decode
    self.values = decode(errors.of_key(key, system.read, given), given)
  end
  if type(self.values) ~= "table" or #self.values > 0 then
    errors.fail(key, ": ", self.name, ": expected an object of settings, got ", show(self.values))
  end
  return self
end

--- Raises the error INVALID_ARGUMENT; its text is key, file and the arguments, concatenated.
---@param ... any
function EngineSettings:fail(...)
  local words = {}
  for i = 1, select("#", ...) do words[i] = show((select(i, ...))) end
  errors.fail(self.key, ": ", self.name, ": ", table.concat(words))
end

--- The value at a path; nil if absent.
---@param path string
---@return any
function EngineSettings:at(path)
  self.looked_at[path] = true
  local value = self.values
  for name in path:gmatch "[^.]+" do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  if value == system.null then return nil end
  return value
end

--- Refuses a setting that is neither "auto" nor equal to the configuration's value.
---@param path string
---@param key string as messages name it
---@param value any the configuration's value
function EngineSettings:agree(path, key, value)
  local asked = self:at(path)
  if asked == nil or asked == "auto" or same(asked, value) then return end
  self:fail(path, " is ", asked, ", but ", key, " is ", value, '; expected "auto" or the same')
end

--- Refuses a setting unless it is "auto" or one of the harmless values.
---@param path string
---@param harmless table<any, true>
---@param why string reason, with an alternative
function EngineSettings:refuse(path, harmless, why)
  local asked = self:at(path)
  if asked ~= nil and asked ~= "auto" and not harmless[asked] then
    self:fail(path, " is ", asked, ": ", why)
  end
end

--- Sets a key of the configuration, unless the user has set it to another value.
---@param c moonring.Configuration
---@param said string the setting that requires it, as the beginning of an error message
---@param key string
---@param value any
function engine_settings.give(c, said, key, value)
  local given = c.given[key]
  if given ~= nil and given ~= system.null and c[key] ~= value then
    errors.fail(said, ", but ", key, " is ", show(c[key]),
      "; expected the same, or one of them alone")
  end
  c[key] = value
end

--- Sets a key of the configuration, as the setting at a path requires, unless the user has set it
--- to another value.
---@param path string the setting that requires it
---@param key string
---@param value any
function EngineSettings:set(path, key, value)
  engine_settings.give(self.c, ("%s: %s: %s is %s"):format(self.key, self.name, path,
    show(self:at(path))), key, value)
end

-- Lists the paths and values of all settings that are set, sorted by path. Maps are expanded.
local function leaves(values, prefix, found)
  for name, value in pairs(values) do
    local path = prefix .. tostring(name)
    local inner = type(value) == "table" and #value == 0 and next(value) ~= nil
    if inner then
      leaves(value, path .. ".", found)
    elseif value ~= system.null and value ~= "auto" and not key_values.same(value, {}) then
      found[#found + 1] = { path = path, value = value }
    end
  end
  table.sort(found, function(a, b) return a.path < b.path end)
  return found
end

-- Settings without effect: a table of paths with their default values, or whole sections.
---@class moonring.IdleSettings
---@field why string
---@field defaults? table<string, any> path -> the engine's default, for which no note is needed
---@field sections? string[] prefixes: all settings in these sections

-- The reason why a setting has no effect, and its default; nil if it is not known.
local function idle(path, groups)
  for _, group in ipairs(groups) do
    local default = group.defaults and group.defaults[path]
    if default ~= nil then return group.why, default end
    for _, section in ipairs(group.sections or {}) do
      if path == section or path:sub(1, #section + 1) == section .. "." then return group.why end
    end
  end
end

-- All known paths, for suggestions.
local function all_known(self, groups)
  local known = {}
  for path in pairs(self.looked_at) do known[#known + 1] = path end
  for _, group in ipairs(groups) do
    for path in pairs(group.defaults or {}) do known[#known + 1] = path end
  end
  return known
end

--- Handles all settings that were not read yet: adds one note per reason for those without effect,
--- and refuses others.
---@param groups moonring.IdleSettings[]
function EngineSettings:rest(groups)
  local said, order = {}, {}
  for _, each in ipairs(leaves(self.values, "", {})) do
    local path = each.path
    if not self.looked_at[path] then
      local why, default = idle(path, groups)
      if not why then
        self:fail("unknown setting '", path, "'", system.did_you_mean(path, all_known(self,
          groups)), "; its effect is not known: remove it")
      end
      if default == nil or not key_values.same(each.value, default) then
        if not said[why] then order[#order + 1] = why end
        said[why] = (said[why] and said[why] .. ", " or "") .. path
      end
    end
  end
  for _, why in ipairs(order) do
    self.c.notes[#self.c.notes + 1] = ("%s: no effect: %s: %s (in %s)"):format(self.key, said[why],
      why, self.name)
  end
end

return engine_settings
