--- Forward and backward of a step's micro-batches, and the totals over them.
local contract = require "moonring.run.contract"
local errors = require "moonring.base.errors"
local lockstep = require "moonring.run.lockstep"
local metrics = require "moonring.base.metrics"
local nonfinite = require "moonring.run.nonfinite"
local readings = require "moonring.base.readings"
local survey = require "moonring.run.survey"
local tensor = require "moonring.native.tensor"
local times = require "moonring.base.times"

---@class moonring.passes
local passes = {}

---@class moonring.Passes
---@field engine moonring.Engine
---@field step moonring.Step
---@field k integer the step's number
---@field count integer the divisor of each sum
---@field noise? table { seed, step, neftune_alpha }
---@field balance? moonring.Tensor the result of Router:survey, if experts are balanced
---@field loss number this rank's share of the loss so far
---@field router_loss number this rank's share of the routers' loss so far
---@field totals table<string, number[]> metrics: name -> { sum, count } of this rank
---@field suspects integer[] examples of micro-batches with a non-finite loss
---@field has_graph boolean whether the loss of any micro-batch has a gradient
---@field later moonring.Readings numbers that are read from the device once per step
local Passes = {}
Passes.__index = Passes

local NO_GRAPH = "the objective's loss has no gradient on any rank, so the step would train "
  .. "nothing: make it of what `loss` is given (objectives.logits, detach, item and tolist leave "
  .. "the graph)"

--- Prepares the passes of a step: runs the survey of the objective (survey.lua) and that of the
--- routers (router.lua) over the whole step. Call it before the first forward with gradients.
--- Collective over all ranks.
---@param engine moonring.Engine
---@param step moonring.Step
---@param k integer the step's number
---@param count integer 0: this rank's sp group only takes part in collectives
---@return moonring.Passes
function passes.new(engine, step, k, count)
  local noise = engine.noise and
    { seed = engine.noise.seed, neftune_alpha = engine.noise.neftune_alpha, step = k }
  local totals = times.within(engine.times, "forward", tensor.scope, survey.run, engine, step,
    { group = engine.group, reference = engine.reference })
  local balance = engine.router and times.within(engine.times, "forward", engine.router.survey,
    engine.router, engine, step, noise)
  return setmetatable({ engine = engine, step = step, k = k, count = count, noise = noise,
    balance = balance, loss = 0, router_loss = 0, totals = totals, suspects = {},
    has_graph = false, later = readings.new() }, Passes)
end

-- Runs the forward and the backward of one micro-batch.
local function pass(self, micro)
  local engine, router = self.engine, self.engine.router
  local batch = engine:batch(micro)
  if router then router:watch(batch, self.step:size()) end
  if engine.on_batch and micro ~= lockstep.nothing then engine.on_batch(batch) end
  local sum, more, joined = engine:loss(batch, self.noise, engine.reference)
  contract.check(engine, sum, more)
  if sum:requires_grad() then self.has_graph = true end
  local loss, routed = sum / self.count, router and router:loss(batch, self.balance) or 0
  local whole = router and loss + routed or loss
  if whole:requires_grad() or joined:requires_grad() then
    local root = engine.loss_scale and engine.loss_scale:of(whole) or whole
    times.within(engine.times, "backward", root.backward, root, joined)
  end
  local examples = batch:examples()
  self.later:want({ loss, routed }, function(numbers)
    if not nonfinite.is_finite(numbers[1] + numbers[2]) then
      for _, example in ipairs(examples) do self.suspects[#self.suspects + 1] = example end
    end
    self.loss, self.router_loss = self.loss + numbers[1], self.router_loss + numbers[2]
  end)
  metrics.add_later(self.later, self.totals, more or {})
end

--- Runs all micro-batches. Collective over all ranks if `retries` is set.
---@param retries? boolean running out of memory ends the passes, not the run
---@return moonring.Error | string | nil short the error if memory ran out on any rank
function Passes:forward_backward(retries)
  local engine = self.engine
  local micros = self.count > 0 and engine:micro_batches(self.step:micro_batches()) or {}
  local function all()
    for _, micro in ipairs(micros) do tensor.scope(pass, self, micro) end
  end
  if not retries then return all() end
  local ok, short = pcall(all)
  if not ok and not errors.out_of_memory(short) then error(short, 0) end
  if engine.mesh:max(ok and 0 or 1) == 0 then return nil end
  return short or "out of memory on another rank"
end

--- Sums the loss of the whole step over all ranks. Collective over all ranks. Errors:
--- INVALID_ARGUMENT if no rank's loss has a gradient (unless it is one of several losses); ABORTED
--- for a non-finite loss. If the engine is `tolerant`, the latter error is returned, not raised.
---@param part number this group's count as a fraction of the whole step's
---@return number loss
---@return moonring.Error? fault the error if the loss is non-finite
function Passes:reduce(part)
  local engine, mesh = self.engine, self.engine.mesh
  -- The numbers are read once per step, so that the host can be up to a step ahead of the device.
  times.within(engine.times, "backward", self.later.read, self.later)
  if mesh:max(self.has_graph and 1 or 0) == 0 and not engine.loss_name then
    errors.fail("step ", self.k, ": ", NO_GRAPH)
  end
  -- A loss at sequence level is the same on all ranks of an sp group, so only one of them counts
  -- it. The routers' loss is a sum over each rank's own tokens.
  local is_counted = engine.objective.level == "token" or mesh:sp_rank() == 0
  local loss = mesh:sum(((is_counted and self.loss or 0) + self.router_loss) * part)
  if nonfinite.is_finite(loss) then return loss end
  local fault = nonfinite.of_loss(engine, self.step, self.noise, loss, self.suspects, self.k)
  if not engine.tolerant then error(errors.with(fault, "; stopped before the update"), 0) end
  return loss, fault
end

--- Sums the metrics over all ranks: name -> { sum, count }. Collective over all ranks.
---@return table<string, number[]>
function Passes:metrics()
  return metrics.reduce(self.totals, self.engine.mesh, self.engine.objective.level)
end

--- What the passes of a step give.
---@class moonring.PassesResult
---@field short? moonring.Error | string the error if memory ran out on any rank; then nothing else
---@field loss number of the whole step
---@field fault? moonring.Error if the loss is non-finite
---@field metrics table<string, number[]> name -> { sum, count } over all ranks

--- Runs all passes of a step, and sums loss, gradients and metrics over all ranks. Collective over
--- all ranks. Errors: those of Passes:reduce.
---@param engine moonring.Engine
---@param step moonring.Step
---@param k integer the step's number
---@param count integer the divisor of each sum
---@param whole integer the count of all sp groups; with local SGD `count` is that of this one
---@param retries? boolean running out of memory is returned, not raised
---@return moonring.PassesResult
function passes.run(engine, step, k, count, whole, retries)
  local sums = passes.new(engine, step, k, count)
  local short = sums:forward_backward(retries)
  if short then return { short = short } end
  local loss, fault = sums:reduce(count / whole)
  times.named(engine.times, "communication", "gradient sum", engine.sum_gradients, engine)
  engine.has_trained = true
  return { loss = loss, fault = fault, metrics = sums:metrics() }
end

return passes
