--- Per-token values that need a whole row of logits: log-probs, the divergence of the policy from a
-- reference, entropy. They are methods of moonring.Batch. Each recomputes the logits in tiles, so
-- none of them stores [tokens, vocabulary] in memory (objectives/vocabulary).
local autograd = require "moonring.native.autograd"
local batch_forward = require "moonring.run.batch_forward"
local checks = require "moonring.base.options"
local objectives = require "moonring.native.objectives"

---@class (partial) moonring.Batch
local Batch = {}

local function chunk_bytes(model)
  local tile = model:tile_bytes()
  return tile > 0 and tile or 2 ^ 53
end

-- Returns the targets on the host, where rows without a target can be found without waiting for the
-- device.
local function host_targets(batch)
  batch.cut_targets = batch.cut_targets or batch.targets
  return batch.cut_targets
end

-- Adds `values` to batch.joined, from which the backward starts: even if the objective does not use
-- the values, other ranks may wait for this rank in their backward. Also moves the targets to the
-- device of `values`.
local function joins(batch, values)
  batch.targets = batch.targets:on(values)
  if values:requires_grad() then
    local sum = values:sum()
    batch.joined = batch.joined and batch.joined + sum or sum
  end
  return values
end

-- Calls a native function of hidden states, head and targets, with the options that the model sets
-- for its head.
local function made_by(make, batch, model, hidden, options)
  options.dtype, options.chunk_bytes = model:matmul_dtype(), chunk_bytes(model)
  options.chunk_rows = model:logit_rows()
  return joins(batch, make(hidden, batch_forward.head(batch, model), host_targets(batch), options))
end

--- Log-probs of this rank's targets. Stores the requested statistics in self.statistics.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param options? table label_smoothing, temperature and statistics of objectives.log_prob
---@return moonring.Tensor [T_local]
function Batch:token_log_probs(model, hidden, options)
  options = options or {}
  local log_probs, statistics = objectives.log_prob(hidden, batch_forward.head(self, model),
    host_targets(self), { dtype = model:matmul_dtype(), chunk_bytes = chunk_bytes(model),
      chunk_rows = model:logit_rows(), label_smoothing = options.label_smoothing,
      temperature = options.temperature, statistics = options.statistics })
  self.statistics = statistics or {}
  return joins(self, log_probs)
end

--- Computes another model's hidden states after its final norm, outside the graph, for a
--- divergence. The statistics of the policy's routers stay unchanged. Collective over the sp group.
---@param model moonring.Model
---@return moonring.Tensor hidden_TD [T_local, D]
function Batch:reference_hidden(model)
  local tally, router, noise = self.tally, self.router, self.head_noise
  self.router = nil
  local hidden = autograd.no_grad(self.hidden, self, model)
  self.tally, self.router, self.head_noise = tally, router, noise
  return hidden
end

--- The reference of a divergence: another model and its hidden states, or stored likeliest ids with
--- their log-probs.
---@class moonring.DivergenceFrom
---@field kind "forward" | "reverse" | "js" this and the next three as in moonring.DivergenceOptions
---@field beta? number
---@field temperature? number
---@field vocabulary? integer
---@field reference? moonring.Model with `hidden`
---@field hidden? moonring.Tensor [T_local, D'] of the reference, from Batch:reference_hidden
---@field ids? moonring.Tensor int64 [T_local, K]
---@field log_probs? moonring.Tensor [T_local, K]
---@field rest? "bucket" | "renormalize" | "zero"

local FROM = { reference = "any?", hidden = "any?", kind = "string", beta = "number?",
  temperature = "number?", vocabulary = "number?", ids = "any?", log_probs = "any?",
  rest = "string?" }

--- The divergence of the policy's next-token distribution from a reference's over the whole
--- vocabulary, as in objectives.divergence; 0 where there is no target. The reference gets no
--- gradient.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param from moonring.DivergenceFrom
---@return moonring.Tensor [T_local]
function Batch:divergence(model, hidden, from)
  checks.check("Batch:divergence", from, FROM)
  local reference = from.reference
  return made_by(objectives.divergence, self, model, hidden, { kind = from.kind, beta = from.beta,
    temperature = from.temperature, vocabulary = from.vocabulary, ids = from.ids,
    log_probs = from.log_probs, rest = from.rest, reference_hidden = from.hidden,
    reference_head = reference and reference:head(),
    reference_dtype = reference and reference:matmul_dtype() })
end

--- The entropy of the policy's next-token distribution, in nats; 0 where there is no target.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param options? table temperature and vocabulary, as objectives.entropy takes them
---@return moonring.Tensor [T_local]
function Batch:entropy(model, hidden, options)
  options = checks.check("Batch:entropy", options, { temperature = "number?",
    vocabulary = "number?" })
  return made_by(objectives.entropy, self, model, hidden, { temperature = options.temperature,
    vocabulary = options.vocabulary })
end

--- logsumexp(logits)^2, a penalty that keeps logits from drifting; 0 where there is no target.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param options? table vocabulary, as objectives.z_loss takes it
---@return moonring.Tensor [T_local]
function Batch:z_loss(model, hidden, options)
  options = checks.check("Batch:z_loss", options, { vocabulary = "number?" })
  return made_by(objectives.z_loss, self, model, hidden, { vocabulary = options.vocabulary })
end

--- The likeliest next ids and their log-probs, for example to store them for a later divergence.
--- They are not differentiable.
---@param model moonring.Model
---@param hidden moonring.Tensor [T_local, D]
---@param top integer how many
---@param options? table temperature and vocabulary, as objectives.top_log_probs takes them
---@return moonring.Tensor ids int64 [T_local, top]; -1 where there is no target
---@return moonring.Tensor log_probs [T_local, top]; -inf there
function Batch:top_log_probs(model, hidden, top, options)
  options = checks.check("Batch:top_log_probs", options, { temperature = "number?",
    vocabulary = "number?" })
  return objectives.top_log_probs(hidden, model:head(), host_targets(self), top,
    { dtype = model:matmul_dtype(), chunk_bytes = chunk_bytes(model),
      chunk_rows = model:logit_rows(), temperature = options.temperature,
      vocabulary = options.vocabulary })
end

return Batch
