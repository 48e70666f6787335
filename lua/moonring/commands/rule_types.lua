--- Generates the annotations of the optimizers of trainer/rules, lua/types/trainer_rules.lua, from
-- their table.
local key_types = require "moonring.config.key_types"
local trainer = require "moonring.native.trainer"

---@class moonring.rule_types
local rule_types = {}

local HEAD = [[
---@meta moonring.native.trainer

--- The optimizers of trainer/rules. Made by docs/rule_types.lua from their table.
---@class (partial) moonring.trainer
local trainer = {}
]]

-- A default as a script would write it: "top", 1e-8.
local function written(default)
  if type(default) == "string" then return ("%q"):format(default) end
  return (tostring(default):gsub("e%-0", "e-"))
end

local function field(option)
  local words = { option.text ~= "" and option.text or nil }
  if option.default ~= nil then words[#words + 1] = "default " .. written(option.default) end
  local name = option.name .. (option.required and "" or "?")
  return key_types.comment(table.concat(words, "; "))
    .. ("\n---@field %s %s"):format(name, option.type)
end

-- "adam_mini" -> "AdamMiniOptions"
local function class_of(name)
  return ("_" .. name):gsub("_(%l)", string.upper) .. "Options"
end

local function text_of(rule)
  local class = "moonring." .. class_of(rule.name)
  local lines = { ("---@class %s: moonring.NativeRuleOptions"):format(class) }
  local required = false
  for _, option in ipairs(rule.options) do
    lines[#lines + 1], required = field(option), required or option.required
  end
  lines[#lines + 1] = "\n" .. key_types.comment(rule.text)
  lines[#lines + 1] = "---@param list moonring.Parameters"
  lines[#lines + 1] = ("---@param options%s %s"):format(required and "" or "?", class)
  lines[#lines + 1] = "---@return moonring.Optimizer"
  lines[#lines + 1] = ("function trainer.%s(list, options) end\n"):format(rule.name)
  return table.concat(lines, "\n")
end

--- The text of lua/types/trainer_rules.lua.
---@return string
function rule_types.text()
  local parts = { HEAD }
  for _, rule in ipairs(trainer.optimizer_rules()) do parts[#parts + 1] = text_of(rule) end
  parts[#parts + 1] = "return trainer\n"
  return table.concat(parts, "\n")
end

return rule_types
