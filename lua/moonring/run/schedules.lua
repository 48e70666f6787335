--- The learning rate over the steps of a run, by lr_scheduler_type and its keys. The rules are
-- trainer/schedule.h's, one row each there; or a user's own: own_schedule.lua.
local errors = require "moonring.errors"
local own_pieces = require "moonring.config.own_pieces"
local own_schedule = require "moonring.run.own_schedule"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.schedules
local schedules = {}

-- lr_scheduler_kwargs: YAML's own table, or the same as JSON text.
local function given_options(c)
  local given = c.lr_scheduler_kwargs or {}
  if type(given) == "string" then given = system.yaml_decode(given, "lr_scheduler_kwargs") end
  if type(given) ~= "table" or #given > 0 then
    errors.fail("lr_scheduler_kwargs: wanted options by name, got ",
      tostring(c.lr_scheduler_kwargs))
  end
  local options = {}
  for name, value in pairs(given) do
    if value ~= system.null then options[name] = tonumber(value) or value end
  end
  return options
end

--- The schedule of a configuration.
---@param c moonring.Configuration
---@param total_steps integer
---@return moonring.Schedule | moonring.OwnSchedule
function schedules.open(c, total_steps)
  local own = own_pieces.of(c, "lr_scheduler_type")
  if own then return own_schedule.new(own, c, total_steps) end
  local options = given_options(c)
  options.kind, options.learning_rate = c.lr_scheduler_type, c.learning_rate
  options.total_steps = total_steps
  options.warmup_ratio, options.warmup_steps = c.warmup_ratio, c.warmup_steps
  return trainer.schedule(options)
end

return schedules
