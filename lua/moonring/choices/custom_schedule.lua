--- Schedules of a user's own: the learning rate as a function of the step, or a table that
-- remembers.
--
--   function(k, total, config) return config.learning_rate * (1 - k / total) end
--   { at = function(self, k, total, config) .. end, state = .., load_state = .. }
local errors = require "moonring.base.errors"
local own_pieces = require "moonring.choices.custom_pieces"

---@class moonring.own_schedule
local own_schedule = {}

--- What a script or a file may give. Steps count from 0; it is asked once a step, in their order,
--- on every rank, and must say the same on all.
---@alias moonring.ScheduleFunction fun(k: integer, total: integer, config: moonring.Configuration):
---   number

---@class moonring.ScheduleTable
---@field at fun(self: moonring.ScheduleTable, k: integer, total: integer,
---   config: moonring.Configuration): number
--- what a checkpoint keeps of it, as a part's (moonring.Part); with load_state
---@field state? fun(self: moonring.ScheduleTable): any
---@field load_state? fun(self: moonring.ScheduleTable, state: any)

---@class moonring.OwnSchedule
---@field given moonring.ScheduleTable
---@field place string for messages
---@field total integer
---@field config moonring.Configuration
---@field step? integer the last that was asked for
---@field rate? number its rate
local OwnSchedule = {}
OwnSchedule.__index = OwnSchedule

local KEY = "lr_scheduler_type"

--- Refuses what is no schedule. Errors: INVALID_ARGUMENT.
---@param piece moonring.OwnPiece
---@return moonring.ScheduleTable
function own_schedule.check(piece)
  local given = piece.value
  if type(given) == "function" then
    return { at = function(_, k, total, config) return given(k, total, config) end }
  end
  if type(given) ~= "table" then
    own_pieces.refuse(piece, KEY, "wanted a function or a table with `at`, got a ", type(given))
  end
  for _, name in ipairs { "at", "state", "load_state" } do -- other fields are what it remembers
    local kind = type(given[name])
    if kind ~= "function" and (name == "at" or kind ~= "nil") then
      own_pieces.refuse(piece, KEY, name, ": wanted a function, got ", kind)
    end
  end
  if (given.state == nil) ~= (given.load_state == nil) then
    own_pieces.refuse(piece, KEY, "wanted both state and load_state, or neither")
  end
  return given
end

--- A schedule of a user's own, for a run of so many steps.
---@param piece moonring.OwnPiece
---@param c moonring.Configuration
---@param total integer
---@return moonring.OwnSchedule
function own_schedule.new(piece, c, total)
  return setmetatable({ given = own_schedule.check(piece), place = piece.place, total = total,
    config = c }, OwnSchedule)
end

--- The learning rate of a step. Errors: INVALID_ARGUMENT where it is no finite number of 0 or more,
--- or fails.
---@param step_index integer from 0
---@return number
function OwnSchedule:at(step_index)
  if self.step == step_index then return self.rate end
  local ok, rate = pcall(self.given.at, self.given, step_index, self.total, self.config)
  if not ok then errors.prefix(rate, KEY, ": ", self.place, ": step ", step_index, ": ") end
  if type(rate) ~= "number" or not (rate >= 0 and rate < math.huge) then
    own_pieces.refuse(self, KEY, "step ", step_index, ": wanted a rate of 0 or more, got ",
      tostring(rate))
  end
  self.step, self.rate = step_index, rate
  return rate
end

--- Whether checkpoints keep a state of it.
---@return boolean
function OwnSchedule:remembers() return self.given.state ~= nil end

--- What a checkpoint holds of it.
---@return any
function OwnSchedule:state() return self.given:state() end

--- Goes on from what a checkpoint held.
---@param state any
function OwnSchedule:load_state(state)
  self.given:load_state(state)
  self.step = nil
end

function OwnSchedule:close() end

return own_schedule
