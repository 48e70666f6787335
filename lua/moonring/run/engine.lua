--- The engine computes the gradient of a step: first the count, then forward and backward of each
-- micro-batch. Only the engine divides:
--   loss of a step = sum over its examples on all ranks / the objective's count of the whole step
-- Gradients are summed over all ranks and never averaged. Evaluations: evaluation.lua. With
-- local_steps (rounds.lua) each sp group divides by the count of its own share of the step, and its
-- gradients are summed over its own ranks; the reported loss of the step is as above.
local batches = require "moonring.run.batch"
local evaluation = require "moonring.run.evaluation"
local fitting = require "moonring.run.fitting"
local forward = require "moonring.run.forward"
local lockstep = require "moonring.run.lockstep"
local metrics = require "moonring.base.metrics"
local nonfinite = require "moonring.run.nonfinite"
local objectives = require "moonring.choices.objective"
local options = require "moonring.base.options"
local readings = require "moonring.base.readings"
local same_data = require "moonring.run.checkpoint.same_data"
local step_count = require "moonring.run.step_count"
local survey = require "moonring.run.survey"
local tensor = require "moonring.native.tensor"
local times = require "moonring.base.times"
local trainer = require "moonring.native.trainer"

---@class moonring.engine
local engine = {}

---@class moonring.EngineOptions
---@field mesh moonring.Mesh
---@field model moonring.Model
---@field attention moonring.Attention
---@field objective moonring.Objective
--- whose gradients are summed; default: those of the model and of the objective
---@field parameters? moonring.Parameters
---@field reference? moonring.Reference if the objective needs one
---@field group? integer examples per survey group: per_device_train_batch_size x dp
---@field noise? table { seed, neftune_alpha }: enables dropout and NEFTune
---@field router? moonring.Router if experts are balanced
---@field on_batch? fun(batch: moonring.Batch) called with each micro-batch before its forward
---@field shifted? boolean whether attention is shifted (shift_attn), except in evaluation
---@field states? moonring.States of the parameters; absent: each rank has all parameters
---@field tolerant? boolean returns a non-finite loss instead of raising an error; default false
---@field apart? boolean sp groups take independent steps (rounds.lua); default false
--- the loss is multiplied by it before the backward, and Updates divides the gradients by it again
---@field loss_scale? moonring.LossScale
---@field ledger? moonring.Rollouts has the completions of generated examples

---@class moonring.Engine: moonring.EngineOptions
---@field parameters moonring.Parameters
---@field evaluates? boolean true during an evaluation
---@field times? moonring.Times measures the time of each component
---@field before? string the objective's state before the last step, in a tolerant engine and one
---   that retries
---@field retries? boolean if memory runs out, the step is abandoned and the error returned
local Engine = {}
Engine.__index = Engine

local OPTIONS = { mesh = "any", model = "any", attention = "any", objective = "table",
  parameters = "any?", reference = "table?", group = "number?", noise = "table?",
  tolerant = "boolean?", router = "table?", on_batch = "function?", states = "any?",
  apart = "boolean?", shifted = "boolean?", loss_scale = "table?", ledger = "table?" }

local NO_GRAPH = "the objective's loss has no gradient on any rank, so the step would train "
  .. "nothing: make it of what `loss` is given (objectives.logits, detach, item and tolist leave "
  .. "the graph)"

--- An engine that runs the steps of one model under one objective. Errors: INVALID_ARGUMENT, with
--- the nearest name, for an unknown option.
---@param given moonring.EngineOptions
---@return moonring.Engine
function engine.new(given)
  options.check("engine.new", given, OPTIONS)
  objectives.check(given.objective)
  local self = setmetatable({}, Engine)
  for name, value in pairs(given) do self[name] = value end
  if not self.parameters then
    local own = self.objective.parameters
    self.parameters = self.model:parameters()
    if own then self.parameters = self.parameters:join(own) end
  end
  return self
end

--- Pads a list of micro-batches with empty ones if ranks that share weights have more. Collective
--- over all ranks in that case.
---@param micros moonring.MicroBatch[]
---@return moonring.MicroBatch[]
function Engine:micro_batches(micros)
  local together = self.states and self.states:lockstep()
  return together and lockstep.pad(micros, self.mesh) or micros
end

--- The batch of a micro-batch, as the objective expects it.
---@param micro moonring.MicroBatch
---@param slot? integer as in moonring.batch.new
---@return moonring.Batch
function Engine:batch(micro, slot)
  local batch = batches.new(micro, self.attention, self.mesh, slot):mask(self.objective.mask)
  batch.shifted, batch.ledger = self.shifted and not self.evaluates, self.ledger
  return batch
end

--- The input of the objective's loss for a batch (forward.lua). Collective over the sp group.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor | table<string, moonring.Tensor> values
---@return moonring.Tensor joined of this forward, for Tensor:backward
function Engine:values(batch, noise)
  return times.within(self.times, "forward", forward.values, self, batch, noise)
end

--- The objective's sum and metrics of one micro-batch (forward.lua). Collective over the sp group.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@param reference? moonring.Reference
---@return moonring.Tensor sum
---@return table<string, number[]>? metrics
---@return moonring.Tensor joined of this forward, for Tensor:backward
function Engine:loss(batch, noise, reference)
  return times.within(self.times, "forward", forward.loss, self, batch, noise, reference)
end

--- The sum of `count` over a list of micro-batches.
---@param micros moonring.MicroBatch[]
---@param count fun(batch: moonring.Batch): number
---@return number
function Engine:total(micros, count)
  local sum = 0
  for _, micro in ipairs(micros) do
    sum = sum + tensor.scope(function() return count(self:batch(micro)) end)
  end
  return sum
end

-- Totals over a step's micro-batches on this rank: its share of the loss and of the routers' loss,
-- metrics, examples with a non-finite loss, and whether any loss has a graph.
local function new_sums() return { share = 0, routed = 0, told = {}, suspects = {}, learns = 0 } end

-- Forward and backward of one micro-batch; its totals are in `sums` after `later` is read. `given`:
-- count, noise, balance (the routers' weights).
local function pass(self, micro, step, given, sums, later)
  local batch, router = self:batch(micro), self.router
  if router then router:watch(batch, step:size()) end
  if self.on_batch and micro ~= lockstep.nothing then self.on_batch(batch) end
  local sum, more, joined = self:loss(batch, given.noise, self.reference)
  if sum:requires_grad() then sums.learns = 1 end
  local loss, routed = sum / given.count, router and router:loss(batch, given.balance) or 0
  local whole = router and loss + routed or loss
  if whole:requires_grad() or joined:requires_grad() then
    local root = self.loss_scale and self.loss_scale:of(whole) or whole
    times.within(self.times, "backward", root.backward, root, joined)
  end
  local examples = batch:examples()
  later:want({ loss, routed }, function(numbers)
    if not nonfinite.is_finite(numbers[1] + numbers[2]) then
      for _, example in ipairs(examples) do sums.suspects[#sums.suspects + 1] = example end
    end
    sums.share, sums.routed = sums.share + numbers[1], sums.routed + numbers[2]
  end)
  metrics.add_later(later, sums.told, more or {})
end

-- Forward and backward of all `micros`. With `retries`, collective over all ranks, and returns the
-- error if memory ran out on any rank.
local function passes(self, micros, step, given, sums, later)
  local function all()
    for _, micro in ipairs(micros) do
      tensor.scope(pass, self, micro, step, given, sums, later)
    end
  end
  if not self.retries then return all() end
  local ok, short = pcall(all)
  if not ok and not fitting.ran_out(short) then error(short, 0) end
  if self.mesh:max(ok and 0 or 1) == 0 then return nil end
  return short or "RESOURCE_EXHAUSTED: out of memory on another rank"
end

local function sum_gradients(self)
  if self.states then return self.states:sum_gradients() end
  trainer.sum_gradients(self.parameters, self.mesh)
end

--- Adds the gradient of the whole step's loss, summed over all ranks, to the parameters' gradients.
--- Collective over all ranks. A step with nothing to train is skipped: it has no example, or its
--- count is 0, or the loss uses log-probs and its documents have no targets. The third result is
--- then the reason, and there is no gradient or loss. A rank whose loss or values have no graph
--- contributes a gradient of zero. Errors, before any update: INVALID_ARGUMENT if that is so on
--- every rank; DATA_LOSS, with ranks and examples, if ranks that share sequences have different
--- ones; ABORTED, with step, examples and layer, for a non-finite loss, unless the engine is
--- tolerant.
---@param step moonring.Step
---@param k integer the step's number, for messages and noise
---@return number? loss of the whole step; nil if there is nothing to train
---@return table<string, number[]>? metrics their totals: name -> { sum, count }
---@return string? fault the error of a non-finite loss in a tolerant engine; or the reason why the
---   step was skipped
---@return boolean? learns whether this rank's group has a gradient; with local_steps its share of
---   the step may be empty
---@return string? short the error if memory ran out on any rank, in an engine that retries; the
---   gradients are then incomplete, and the objective's state is restored
function Engine:backward(step, k)
  local o, mesh = self.objective, self.mesh
  self.evaluates = false -- a failed evaluation may have left it true
  same_data.check(mesh, step, "step " .. k)
  local count, idle, total = step_count.of(self, step)
  if not count then return nil, nil, idle end
  self.before = (self.tolerant or self.retries) and o.state and o.state()
  local sums, later = new_sums(), readings.new()
  sums.told = times.within(self.times, "forward", tensor.scope, survey.run, self, step,
    { group = self.group, reference = self.reference })
  local given = { count = count, noise = self.noise and
    { seed = self.noise.seed, neftune_alpha = self.noise.neftune_alpha, step = k } }
  given.balance = self.router and times.within(self.times, "forward", self.router.survey,
    self.router, self, step, given.noise)
  local learns = count > 0
  local micros = learns and self:micro_batches(step:micro_batches()) or {}
  local short = passes(self, micros, step, given, sums, later)
  if short then
    self:take_back()
    return nil, nil, nil, nil, short
  end
  -- Read once per step, so that the host waits for the device only here.
  times.within(self.times, "backward", later.read, later)
  if mesh:max(sums.learns) == 0 then
    error(("INVALID_ARGUMENT: step %d: %s"):format(k, NO_GRAPH), 0)
  end
  local part = count / total -- of the step: 1 without local_steps
  -- The loss of sequences is equal on all ranks of an sp group; the routers' is of each rank's
  -- tokens.
  local share = (o.level == "token" or mesh:sp_rank() == 0) and sums.share or 0
  local loss = mesh:sum((share + sums.routed) * part)
  local fault = not nonfinite.is_finite(loss)
    and nonfinite.of_loss(self, step, given.noise, loss, sums.suspects, k) or nil
  if fault and not self.tolerant then error(fault .. "; stopped before the update", 0) end
  times.named(self.times, "communication", "gradient sum", sum_gradients, self)
  return loss, metrics.reduce(sums.told, mesh, o.level), fault, learns
end

--- Restores the state that the objective had before the last step of a tolerant engine, which
--- undoes that step.
function Engine:take_back()
  if self.before then self.objective.load_state(self.before) end
end

--- Evaluates on a data set (evaluation.lua). Collective over all ranks.
---@param dataset moonring.Dataset
---@param how moonring.EvaluationOptions
---@return table<string, number>
function Engine:evaluate(dataset, how)
  self.evaluates = true
  local numbers = evaluation.run(self, dataset, how)
  self.evaluates = false
  return numbers
end

return engine
