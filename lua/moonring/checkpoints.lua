--- The model-only checkpoints of a run: output_dir/checkpoint-N, the oldest removed beyond save_total_limit, the best kept in any case.
-- Rank 0 writes; every rank knows which are there.
local config = require "moonring.config"
local system = require "moonring.native.system"

local checkpoints = {}
local Checkpoints = {}
Checkpoints.__index = Checkpoints

-- A count of steps from save_steps or eval_steps: below 1 it is a part of all steps.
function checkpoints.interval(value, total_steps) return value < 1 and math.ceil(value * total_steps) or value end

--- Options: dir, limit (absent: all are kept), metric (absent: none is best; else a metric of the evaluation, "loss", with or without "eval_"), greater (is better; absent: unless
-- it ends in "loss"), mesh, save (a function that writes a model to a folder, from rank 0; all ranks call it).
function checkpoints.new(options)
  local metric = options.metric and (options.metric:find "^eval_" and options.metric or "eval_" .. options.metric)
  local greater = options.greater
  if metric and greater == nil then greater = not metric:find "loss$" end
  return setmetatable({ dir = options.dir, limit = options.limit, metric = metric, greater = greater, mesh = options.mesh, write = options.save, kept = {}, stale = 0 }, Checkpoints)
end

--- Takes an evaluation's numbers (by their "eval_" names) at a step: whether they are the best so far. `stale` counts the evaluations since the best.
function Checkpoints:judge(evaluation, step)
  if not self.metric then return false end
  local value = evaluation[self.metric]
  if value == nil then
    local names = {}
    for name in pairs(evaluation) do names[#names + 1] = name end
    table.sort(names)
    config.fail("metric_for_best_model: no evaluation gives ", self.metric, "; there are ", table.concat(names, ", "))
  end
  local better = self.best == nil or (self.greater and value > self.best.metric) or (not self.greater and value < self.best.metric)
  if better then self.best = { metric = value, step = step, folder = self.dir .. "/checkpoint-" .. step } end
  self.stale = better and 0 or self.stale + 1
  return better
end

-- The oldest that may go: not the newest, nor the best.
local function oldest(self)
  for i = 1, #self.kept - 1 do
    if not (self.best and self.kept[i] == self.best.folder) then return table.remove(self.kept, i) end
  end
end

--- Writes checkpoint-STEP, then removes what is beyond the limit.
function Checkpoints:save(step)
  local folder = self.dir .. "/checkpoint-" .. step
  self.write(folder)
  self.kept[#self.kept + 1] = folder
  while self.limit and #self.kept > math.max(self.limit, 1) do
    local gone = oldest(self)
    if not gone then break end
    if self.mesh:rank() == 0 then system.remove(gone) end
  end
  self.mesh:barrier()
end

return checkpoints
