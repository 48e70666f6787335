--- The best evaluation of a run so far, by metric_for_best_model.
local errors = require "moonring.base.errors"
local nonfinite = require "moonring.run.nonfinite"
local system = require "moonring.native.system"

---@class moonring.best
local best = {}

---@class moonring.BestEvaluation
---@field wanted? string the metric, by its "eval_" name; absent: best checkpoints are not tracked
---@field greater? boolean whether a greater value is better
---@field stale integer evaluations since the best
---@field metric? number the best value
---@field step? integer
---@field folder? string the folder of its checkpoint
local Best = {}
Best.__index = Best

--- Creates the record of a new run's best evaluation, which is empty.
---@param metric? string name, with or without "eval_"; absent: the best is not tracked
---@param greater? boolean a greater value is better; default: true unless the metric ends in "loss"
---@return moonring.BestEvaluation
function best.new(metric, greater)
  if metric and not metric:find "^eval_" then metric = "eval_" .. metric end
  if metric and greater == nil then greater = not metric:find "loss$" end
  return setmetatable({ wanted = metric, greater = greater, stale = 0 }, Best)
end

local function is_better(self, value)
  if not nonfinite.is_finite(value) then return false end
  if not self.metric then return true end
  if self.greater then return value > self.metric end
  return value < self.metric
end

--- Records the metrics of an evaluation. Returns whether it is the best so far.
---@param evaluation table<string, number> by their "eval_" names
---@param step integer
---@param folder string of its checkpoint
---@return boolean
function Best:judge(evaluation, step, folder)
  if not self.wanted then return false end
  local value = evaluation[self.wanted]
  if value == nil then
    local names = {}
    for name in pairs(evaluation) do names[#names + 1] = name end
    errors.fail("metric_for_best_model: no evaluation gives ", self.wanted, "; there are ",
      table.concat(names, ", "))
  end
  if not is_better(self, value) then
    self.stale = self.stale + 1
    return false
  end
  self.metric, self.step, self.folder, self.stale = value, step, folder, 0
  return true
end

--- The state that a checkpoint stores.
---@return table { best: { metric, step, folder }?, stale }
function Best:state()
  local found = self.step and { metric = self.metric, step = self.step, folder = self.folder }
  return { best = found or nil, stale = self.stale }
end

--- Restores the state from a checkpoint. The folder of the best checkpoint may have been moved, or
--- may belong to the run that this one resumes: it is looked up in `dir`, then in `from`.
---@param state table the result of state()
---@param dir string
---@param from string
function Best:load_state(state, dir, from)
  self.stale = state.stale
  if not state.best then return end
  self.metric, self.step = state.best.metric, state.best.step
  local name = "/checkpoint-" .. self.step
  local moved = not system.exists(dir .. name) and system.exists(from .. name)
  self.folder = (moved and from or dir) .. name
end

return best
