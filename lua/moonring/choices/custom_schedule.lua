--- Custom learning-rate schedules: a function of the step, or a table with a state.
--
--   function(k, total, config) return config.learning_rate * (1 - k / total) end
--   { at = function(self, k, total, config) .. end, state = .., load_state = .. }
local errors = require "moonring.base.errors"
local custom_pieces = require "moonring.choices.custom_pieces"

---@class moonring.custom_schedule
local custom_schedule = {}

--- A schedule that a script or a file defines. It is called once per step k, in order, on every
--- rank, and must return the same rate on all ranks. Steps count from 0.
---@alias moonring.ScheduleFunction fun(k: integer, total: integer, config: moonring.Configuration):
---   number

--- A custom schedule as a table. `at` returns the learning rate of step k of `total`.
---@class moonring.ScheduleTable
---@field at fun(self: moonring.ScheduleTable, k: integer, total: integer,
---   config: moonring.Configuration): number
--- `state` returns the state that a checkpoint stores, as in moonring.Part; it requires load_state.
---@field state? fun(self: moonring.ScheduleTable): any
---@field load_state? fun(self: moonring.ScheduleTable, state: any)

---@class moonring.OwnSchedule
---@field given moonring.ScheduleTable
---@field place string its source, for messages
---@field total integer
---@field config moonring.Configuration
---@field step? integer the step of the last call
---@field rate? number the rate of that step
local OwnSchedule = {}
OwnSchedule.__index = OwnSchedule

local KEY = "lr_scheduler_type"

--- Checks a custom schedule and wraps a function into a table. Errors: INVALID_ARGUMENT.
---@param piece moonring.CustomPiece
---@return moonring.ScheduleTable
function custom_schedule.check(piece)
  local given = piece.value
  if type(given) == "function" then
    return { at = function(_, k, total, config) return given(k, total, config) end }
  end
  if type(given) ~= "table" then
    custom_pieces.refuse(piece, KEY, "expected a function or a table with `at`, got a ",
      type(given))
  end
  for _, name in ipairs { "at", "state", "load_state" } do -- other fields are its private state
    local kind = type(given[name])
    if kind ~= "function" and (name == "at" or kind ~= "nil") then
      custom_pieces.refuse(piece, KEY, name, ": expected a function, got ", kind)
    end
  end
  if (given.state == nil) ~= (given.load_state == nil) then
    custom_pieces.refuse(piece, KEY, "expected both state and load_state, or neither")
  end
  return given
end

--- Creates the custom schedule of a run with `total` steps.
---@param piece moonring.CustomPiece
---@param c moonring.Configuration
---@param total integer
---@return moonring.OwnSchedule
function custom_schedule.new(piece, c, total)
  return setmetatable({ given = custom_schedule.check(piece), place = piece.place, total = total,
    config = c }, OwnSchedule)
end

--- The learning rate of a step. Errors: INVALID_ARGUMENT if the schedule raises an error or returns
--- anything but a finite number >= 0.
---@param step_index integer from 0
---@return number
function OwnSchedule:at(step_index)
  if self.step == step_index then return self.rate end
  local ok, rate = pcall(self.given.at, self.given, step_index, self.total, self.config)
  if not ok then errors.prefix(rate, KEY, ": ", self.place, ": step ", step_index, ": ") end
  if type(rate) ~= "number" or not (rate >= 0 and rate < math.huge) then
    custom_pieces.refuse(self, KEY, "step ", step_index, ": expected a rate of 0 or more, got ",
      tostring(rate))
  end
  self.step, self.rate = step_index, rate
  return rate
end

--- Whether checkpoints save a state of the schedule.
---@return boolean
function OwnSchedule:remembers() return self.given.state ~= nil end

--- The state for a checkpoint.
---@return any
function OwnSchedule:state() return self.given:state() end

--- Restores the state from a checkpoint.
---@param state any
function OwnSchedule:load_state(state)
  self.given:load_state(state)
  self.step = nil
end

function OwnSchedule:close() end

return custom_schedule
