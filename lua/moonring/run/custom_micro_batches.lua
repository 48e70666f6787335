--- Custom micro-batches (run.open's option `micro_batches`): a script chooses which examples of a
-- step go through one forward together. The choice does not change results, only time and memory.
local errors = require "moonring.base.errors"

---@class moonring.CustomMicroBatches
---@field steps moonring.Steps
---@field group fun(lengths: integer[], budget: integer): integer[][]
---@field mesh moonring.Mesh
---@field budget integer
local Steps = {}
Steps.__index = Steps

--- The next step, with the micro-batches that the script chose; nil after the last step. Errors:
--- INVALID_ARGUMENT if each of the step's examples is not in exactly one micro-batch.
---@return moonring.Step?
function Steps:next()
  local step = self.steps:next()
  if not step then return nil end
  local ok, groups = pcall(self.group, step:lengths(), self.budget)
  if not ok then errors.prefix(groups, "micro_batches: ") end
  if type(groups) ~= "table" then
    errors.fail("micro_batches: expected a list of groups of places, got a ", type(groups))
  end
  local zero_based = {}
  for g, group in ipairs(groups) do
    if type(group) ~= "table" then
      errors.fail("micro_batches: group ", g, ": expected a list of places, got a ", type(group))
    end
    zero_based[g] = {}
    for i, place in ipairs(group) do
      if type(place) ~= "number" or place % 1 ~= 0 or place < 1 or place > step:size() then
        errors.fail("micro_batches: group ", g, ": expected places 1 to ", step:size(), ", got ",
          tostring(place))
      end
      zero_based[g][i] = place - 1
    end
  end
  ok, groups = pcall(step.regroup, step, zero_based, self.mesh)
  if not ok then errors.prefix(groups, "micro_batches (places from 0): ") end
  return step
end

--- The position in the data.
---@return string
function Steps:save_state() return self.steps:save_state() end

--- Moves to a saved position.
---@param state string
function Steps:load_state(state) self.steps:load_state(state) end

--- Wraps steps so that the function `group` chooses their micro-batches. It receives the lengths of
--- the step's examples, in the step's order, and the token budget (micro_batch_tokens). It returns
--- one list per micro-batch with the positions of its examples in the step, counted from 1.
---@param steps moonring.Steps
---@param group fun(lengths: integer[], budget: integer): integer[][]
---@param mesh moonring.Mesh
---@param budget integer
---@return moonring.Steps
return function(steps, group, mesh, budget)
  return setmetatable({ steps = steps, group = group, mesh = mesh, budget = budget }, Steps)
end
