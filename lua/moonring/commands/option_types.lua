--- Generates lua/types/trainer_options.lua, the annotations of the optimizers of trainer/rules and
-- of further options, from the lists beside their C++ structs (base/text/fields.h).
local key_types = require "moonring.config.key_types"
local trainer = require "moonring.native.trainer"

---@class moonring.option_types
local option_types = {}

local HEAD = [[
---@meta moonring.native.trainer

--- The optimizers of trainer/rules, and further options. Made by docs/option_types.lua.
---@class (partial) moonring.trainer
local trainer = {}
]]

-- A default as a script would write it: "top", 1e-8.
local function written(default)
  if type(default) == "string" then return ("%q"):format(default) end
  return (tostring(default):gsub("e%-0", "e-"))
end

-- The line of a field, wrapped.
local function field(option)
  local words = { option.text ~= "" and option.text or nil }
  if option.default ~= nil and option.default ~= "" then
    words[#words + 1] = "default " .. written(option.default)
  end
  local lines = {}
  local line = ("---@field %s%s %s"):format(option.name, option.required and "" or "?",
    option.type)
  for word in table.concat(words, "; "):gmatch "%S+" do
    if #line + 1 + #word > 100 then
      lines[#lines + 1], line = line, "---  "
    end
    line = line .. " " .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
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

--- The text of lua/types/trainer_options.lua.
---@return string
function option_types.text()
  local parts = { HEAD }
  for _, list in ipairs(trainer.option_lists()) do
    local lines = { ("---@class (partial) moonring.%s"):format(list.name) }
    for _, option in ipairs(list.options) do lines[#lines + 1] = field(option) end
    parts[#parts + 1] = table.concat(lines, "\n") .. "\n"
  end
  for _, rule in ipairs(trainer.optimizer_rules()) do parts[#parts + 1] = text_of(rule) end
  parts[#parts + 1] = "return trainer\n"
  return table.concat(parts, "\n")
end

return option_types
