--- The options of an optimizer of trainer/rules: those that keys set, those of its row
-- (optimizer_rows.lua), and those of optim_args.
local trainer = require "moonring.native.trainer"

---@class moonring.rule_settings
local rule_settings = {}

-- Options that a key sets, unless the row's `args` have them.
local KEYS = { beta1 = "adam_beta1", beta2 = "adam_beta2", epsilon = "adam_epsilon",
  learning_rate = "learning_rate", seed = "seed", weight_decay = "weight_decay" }

local rules, RULES = trainer.optimizer_rules(), {} -- RULES: rule -> option -> its type
for _, rule in ipairs(rules) do
  RULES[rule.name] = {}
  for _, option in ipairs(rule.options) do RULES[rule.name][option.name] = option.type end
end

-- The names in optim_args -> options.
local function options_of(row)
  local options = {}
  for arg, option in pairs(row.args or {}) do
    options[type(arg) == "number" and option or arg] = option
  end
  return options
end

--- Rows for the rules that `rows` do not name: `optim` selects them by their names, and optim_args
--- sets each option that has no key.
---@param rows moonring.OptimizerRow[]
---@return moonring.OptimizerRow[]
function rule_settings.further_rows(rows)
  local named, further = {}, {}
  for _, row in ipairs(rows) do named[row.rule or ""] = true end
  for _, rule in ipairs(rules) do
    local args = {}
    for _, option in ipairs(rule.options) do
      if not KEYS[option.name] and not option.type:find "%[%]" then
        args[#args + 1] = option.name
      end
    end
    if not named[rule.name] then
      further[#further + 1] = { name = rule.name, rule = rule.name, args = args }
    end
  end
  return further
end

--- The options that optim_args may set, by their names there, with their types.
---@param row moonring.OptimizerRow
---@return table<string, "number" | "integer" | "boolean" | "string">
function rule_settings.types(row)
  local types = {}
  for arg, option in pairs(options_of(row)) do
    local type_of = RULES[row.rule][option]
    types[arg] = type_of:find '"' and "string" or type_of
  end
  return types
end

--- The options of the rule of a row.
---@param row moonring.OptimizerRow
---@param c moonring.Configuration
---@param args table<string, any> what optim_args sets, by the names there
---@param facts moonring.CheckpointFacts
---@return table<string, any>
function rule_settings.of(row, c, args, facts)
  local settings, given, by_args = {}, {}, {}
  for arg, option in pairs(options_of(row)) do
    by_args[option], given[option] = true, args[arg]
  end
  for option in pairs(RULES[row.rule]) do
    if KEYS[option] and not by_args[option] then settings[option] = c[KEYS[option]] end
  end
  local of_row = row.settings and row.settings(c, given, facts) or {}
  for _, more in ipairs { of_row, given } do
    for option, value in pairs(more) do settings[option] = value end
  end
  return settings
end

return rule_settings
