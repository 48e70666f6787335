--- Creates the learning-rate schedule of a run from lr_scheduler_type and related keys: a built-in
-- one (trainer/optimizer/schedule.h) or a custom one (custom_schedule.lua).
local errors = require "moonring.base.errors"
local custom_pieces = require "moonring.choices.custom_pieces"
local custom_schedule = require "moonring.choices.custom_schedule"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.schedules
local schedules = {}

local KEY = "lr_scheduler_kwargs"

-- Names of options in lr_scheduler_kwargs. NAMES are valid; ELSEWHERE are refused, because a key of
-- the configuration sets them.
local NAMES = { "num_cycles", "min_lr", "min_lr_rate", "warmup_lr_rate", "lr_end", "power",
  "num_stable_steps", "num_decay_steps", "warmup_type", "decay_type", "min_lr_ratio" }
local WORDS = { warmup_type = true, decay_type = true }
local ELSEWHERE = { num_warmup_steps = "warmup_steps", warmup_steps = "warmup_steps",
  warmup_ratio = "warmup_ratio", num_training_steps = "max_steps or num_train_epochs",
  total_steps = "max_steps or num_train_epochs", learning_rate = "learning_rate",
  kind = "lr_scheduler_type", name = "lr_scheduler_type" }

local function is_known(name)
  for _, each in ipairs(NAMES) do
    if each == name then return true end
  end
  return false
end

-- Checks and converts an option's value: a number, quoted or not, or a word.
local function option_of(name, value)
  if ELSEWHERE[name] then
    errors.fail(KEY, ": ", name, ": set the key ", ELSEWHERE[name], " instead")
  elseif not is_known(name) then
    errors.fail(KEY, ": unknown option '", name, "'", system.did_you_mean(name, NAMES),
      "; known: ", table.concat(NAMES, ", "))
  elseif WORDS[name] then
    return value
  end
  local number = tonumber(value)
  if not number then
    errors.fail(KEY, ": ", name, ": expected a number, got '", tostring(value), "'")
  end
  return number
end

-- The options in lr_scheduler_kwargs, which is a YAML map or JSON text.
local function given_options(c)
  local given = c.lr_scheduler_kwargs or {}
  if type(given) == "string" then given = system.yaml_decode(given, KEY) end
  if type(given) ~= "table" or #given > 0 then
    errors.fail(KEY, ": expected options by name, got ", tostring(c.lr_scheduler_kwargs))
  end
  local options = {}
  for name, value in pairs(given) do
    if value ~= system.null then options[name] = option_of(name, value) end
  end
  return options
end

--- Creates the learning-rate schedule of a configuration.
---@param c moonring.Configuration
---@param total_steps integer
---@return moonring.Schedule | moonring.OwnSchedule
function schedules.open(c, total_steps)
  local own = custom_pieces.of(c, "lr_scheduler_type")
  if own then return custom_schedule.new(own, c, total_steps) end
  local options = given_options(c)
  options.kind, options.learning_rate = c.lr_scheduler_type, c.learning_rate
  options.total_steps = total_steps
  options.warmup_ratio, options.warmup_steps = c.warmup_ratio, c.warmup_steps
  return trainer.schedule(options)
end

return schedules
