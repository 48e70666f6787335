--- The engine: one model with one objective. It runs micro-batches forward, for training steps
-- (step.lua) and evaluations (evaluation.lua).
local batches = require "moonring.run.batch"
local evaluation = require "moonring.run.evaluation"
local forward = require "moonring.run.forward"
local lockstep = require "moonring.run.lockstep"
local objectives = require "moonring.choices.objective"
local options = require "moonring.base.options"
local returned = require "moonring.run.returned"
local step = require "moonring.run.step"
local tensor = require "moonring.native.tensor"
local times = require "moonring.base.times"
local trainer = require "moonring.native.trainer"

---@class moonring.engine
local engine = {}

--- Options of engine.new.
---@class moonring.EngineOptions
---@field mesh moonring.Mesh
---@field model moonring.Model
---@field attention moonring.Attention
---@field objective moonring.Objective
--- `parameters`: the parameters whose gradients are summed; default: all trainable ones of the
--- model and the objective.
---@field parameters? moonring.Parameters
---@field reference? moonring.Reference if the objective needs one
---@field group? integer examples that share a survey's term: per_device_train_batch_size x dp
---@field noise? table { seed, neftune_alpha }: enables dropout and NEFTune
---@field router? moonring.Router if experts are balanced
---@field on_batch? fun(batch: moonring.Batch) called with each micro-batch before its forward
---@field shifted? boolean whether attention is shifted (shift_attn), except in evaluation
---@field states? moonring.States of the parameters; absent: each rank has all parameters
---@field tolerant? boolean returns a non-finite loss instead of raising an error; default false
---@field apart? boolean local SGD: sp groups take independent steps (rounds.lua); default false
--- `loss_scale` multiplies the loss before the backward (fp16). moonring.Updates later divides the
--- gradients by it.
---@field loss_scale? moonring.LossScale
---@field ledger? moonring.Rollouts has the completions of generated examples

--- An engine: its options, and the state of the step in progress.
---@class moonring.Engine: moonring.EngineOptions
---@field parameters moonring.Parameters
---@field evaluates? boolean true during an evaluation
---@field times? moonring.Times measures the time of each component
--- `before`: the objective's state before the last step, for `undo`; set only if a step may be
--- undone (`tolerant` or `retries`).
---@field before? string
---@field has_checked_gradients? boolean whether the first step's checks ran (gradient_checks.lua)
---@field retries? boolean if memory runs out, the step is abandoned and its error returned
---@field has_trained? boolean whether a step's gradient was computed
--- `loss_name`: the one of the objective's `losses` whose gradient is being computed; nil: all of
--- them.
---@field loss_name? string
local Engine = {}
Engine.__index = Engine

local OPTIONS = { mesh = "any", model = "any", attention = "any", objective = "table",
  parameters = "any?", reference = "table?", group = "number?", noise = "table?",
  tolerant = "boolean?", router = "table?", on_batch = "function?", states = "any?",
  apart = "boolean?", shifted = "boolean?", loss_scale = "table?", ledger = "table?" }

--- An engine that runs the steps of one model under one objective. Errors: INVALID_ARGUMENT, with
--- the nearest name, for an unknown option.
---@param given moonring.EngineOptions
---@return moonring.Engine
function engine.new(given)
  options.check("engine.new", given, OPTIONS)
  objectives.check(given.objective)
  if given.objective.losses and given.router then
    options.refuse("objective", "losses: the routers' loss (moe_aux_loss_coef) belongs to none of ",
      "them: expected moe_aux_loss_coef: 0")
  end
  local self = setmetatable({}, Engine)
  for name, value in pairs(given) do self[name] = value end
  if not self.parameters then
    local own = self.objective.parameters
    self.parameters = self.model:parameters()
    if own then self.parameters = self.parameters:join(own) end
  end
  return self
end

--- Pads a list of micro-batches with empty ones to the length of the longest list of all ranks, if
--- weights are sharded over ranks. It is then collective over all ranks.
---@param micros moonring.MicroBatch[]
---@return moonring.MicroBatch[]
function Engine:micro_batches(micros)
  local together = self.states and self.states:lockstep()
  return together and lockstep.pad(micros, self.mesh) or micros
end

--- Wraps a micro-batch as the batch that the objective's functions receive.
---@param micro moonring.MicroBatch
---@param slot? integer as in moonring.batch.new
---@return moonring.Batch
function Engine:batch(micro, slot)
  local batch = batches.new(micro, self.attention, self.mesh, slot):mask(self.objective.mask)
  batch.shifted, batch.ledger = self.shifted and not self.evaluates, self.ledger
  return batch
end

--- Runs the forward of a batch and returns the values that the objective's loss expects
--- (forward.lua). Collective over the sp group.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor | table<string, moonring.Tensor> values
---@return moonring.Tensor joined of this forward, for Tensor:backward
function Engine:values(batch, noise)
  return times.within(self.times, "forward", forward.values, self, batch, noise)
end

--- Runs a micro-batch through model and objective (forward.lua). Returns the objective's sum and
--- metrics. Collective over the sp group.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@param reference? moonring.Reference
---@return moonring.Tensor sum
---@return table<string, number[]>? metrics
---@return moonring.Tensor joined of this forward, for Tensor:backward
function Engine:loss(batch, noise, reference)
  return times.within(self.times, "forward", forward.loss, self, batch, noise, reference)
end

--- Adds up the function `count` over a list of micro-batches.
---@param micros moonring.MicroBatch[]
---@param count fun(batch: moonring.Batch): number
---@return number
function Engine:total(micros, count)
  local sum = 0
  for _, micro in ipairs(micros) do
    sum = sum + tensor.scope(function() return returned.count(count, count(self:batch(micro))) end)
  end
  return sum
end

--- Saves the objective's state, so that undo() can restore it. Call it before a step.
function Engine:begin()
  self.evaluates = false -- a failed evaluation may have left it true
  local o = self.objective
  self.before = (self.tolerant or self.retries) and o.state and o.state() or nil
end

--- Restores the objective's state from before the last step. Works only if `tolerant` or `retries`
--- is set.
function Engine:undo()
  if self.before then self.objective.load_state(self.before) end
end

--- Sums the gradients over the ranks that share them: all ranks, or with local SGD the sp group.
function Engine:sum_gradients()
  if self.states then return self.states:sum_gradients() end
  trainer.sum_gradients(self.parameters, self.mesh)
end

--- Computes a step's gradient, for custom training loops: that of the whole step's loss, summed
--- over all ranks. Clear it (`states:clear_gradients()`) before the next one. Collective over all
--- ranks. Errors: those of step.make (run/step.lua); INVALID_ARGUMENT if the last step's gradient
--- was not cleared.
---@param batch moonring.Step
---@param k integer the step's number, for messages and noise
---@return number? loss of the whole step; nil for an idle step, which adds nothing
---@return table<string, number[]>? metrics name -> { sum, count } over all ranks
---@return string? why the reason if there is no loss, or if a tolerant engine's loss is non-finite
function Engine:backward(batch, k)
  local made = step.make(self, batch, k)
  return made.loss, made.metrics, made.why
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
