--- The engine: one model under one objective. It runs micro-batches forward, for training steps
-- (step.lua) and evaluations (evaluation.lua).
local batches = require "moonring.run.batch"
local evaluation = require "moonring.run.evaluation"
local forward = require "moonring.run.forward"
local lockstep = require "moonring.run.lockstep"
local objectives = require "moonring.choices.objective"
local options = require "moonring.base.options"
local step = require "moonring.run.step"
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
--- what gradients are summed of; the model's and the objective's where absent
---@field parameters? moonring.Parameters
---@field reference? moonring.Reference where the objective needs one
---@field group? integer examples of a survey's group: per_device_train_batch_size x dp
---@field noise? table { seed, neftune_alpha }: what is random in training acts where it is given
---@field router? moonring.Router where experts are to be balanced
---@field on_batch? fun(batch: moonring.Batch) sees each micro-batch before its forward
---@field shifted? boolean whether attention is shifted (shift_attn), but in evaluation
---@field states? moonring.States of the parameters; each rank holds all of them where absent
---@field tolerant? boolean a loss that is not finite is returned, not raised; false where absent
---@field apart? boolean sp groups make steps of their own (rounds.lua); false where absent
--- gradients are of the loss times it, for Updates to divide again; of the loss where absent
---@field loss_scale? moonring.LossScale
---@field ledger? moonring.Rollouts knows what stands behind examples that were generated

---@class moonring.Engine: moonring.EngineOptions
---@field parameters moonring.Parameters
---@field evaluates? boolean while it does
---@field times? moonring.Times counts where the time goes
---@field before? string the objective's state before the last step, of a tolerant engine and of one
---   that retries
---@field retries? boolean where memory runs out, what was done of the step is left, and said
local Engine = {}
Engine.__index = Engine

local OPTIONS = { mesh = "any", model = "any", attention = "any", objective = "table",
  parameters = "any?", reference = "table?", group = "number?", noise = "table?",
  tolerant = "boolean?", router = "table?", on_batch = "function?", states = "any?",
  apart = "boolean?", shifted = "boolean?", loss_scale = "table?", ledger = "table?" }

--- What runs the steps of one model under one objective. Errors: INVALID_ARGUMENT, with the nearest
--- name, for an option that there is not.
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

--- The micro-batches to run of a list: with empty ones at its end where ranks that share weights
--- have more, and then collective over all ranks.
---@param micros moonring.MicroBatch[]
---@return moonring.MicroBatch[]
function Engine:micro_batches(micros)
  local together = self.states and self.states:lockstep()
  return together and lockstep.pad(micros, self.mesh) or micros
end

--- A micro-batch as the objective sees it.
---@param micro moonring.MicroBatch
---@param slot? integer as moonring.batch.new's
---@return moonring.Batch
function Engine:batch(micro, slot)
  local batch = batches.new(micro, self.attention, self.mesh, slot):mask(self.objective.mask)
  batch.shifted, batch.ledger = self.shifted and not self.evaluates, self.ledger
  return batch
end

--- What the objective's loss takes of a batch (forward.lua). Collective over the sp group.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor | table<string, moonring.Tensor> values
---@return moonring.Tensor joined of this forward, as Tensor:backward takes it
function Engine:values(batch, noise)
  return times.within(self.times, "forward", forward.values, self, batch, noise)
end

--- The objective's sum and metrics of one micro-batch (forward.lua). Collective over the sp group.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@param reference? moonring.Reference
---@return moonring.Tensor sum
---@return table<string, number[]>? metrics
---@return moonring.Tensor joined of this forward, as Tensor:backward takes it
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

--- Before a step: notes the objective's state, so that undo() can restore it.
function Engine:begin()
  self.evaluates = false -- an evaluation that failed has left it set
  local o = self.objective
  self.before = (self.tolerant or self.retries) and o.state and o.state() or nil
end

--- Gives the objective the state that it had before the last step, of an engine that is tolerant or
--- retries.
function Engine:undo()
  if self.before then self.objective.load_state(self.before) end
end

--- Sums the gradients over the ranks that share them: all, or with local SGD the sp group.
function Engine:sum_gradients()
  if self.states then return self.states:sum_gradients() end
  trainer.sum_gradients(self.parameters, self.mesh)
end

--- For loops of a script's own: adds the gradient of the whole step's loss, summed over all ranks,
--- to what the parameters hold (run/step.lua, whose errors it has). Collective over all ranks.
---@param batch moonring.Step
---@param k integer the step's number, for messages and noise
---@return number? loss of the whole step; nil of an idle step, which adds nothing
---@return table<string, number[]>? metrics name -> { sum, count } over all ranks
---@return string? why where there is no loss, or a tolerant engine's loss is not finite
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
