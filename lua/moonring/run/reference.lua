--- The reference model of DPO, KTO and GRPO. Log-probs per document are computed during training,
-- or once before it and stored (kept_reference.lua). Log-probs per token and whole distributions
-- are always computed during training.
local autograd = require "moonring.native.autograd"
local errors = require "moonring.base.errors"
local tensor = require "moonring.native.tensor"

---@class moonring.reference
local reference = {}

--- A reference model: three functions that return its values for a batch.
---@class moonring.Reference
--- `log_probs` returns the log-prob of each document, fp64 [documents], outside any graph.
---@field log_probs fun(self: moonring.Reference, batch: moonring.Batch): moonring.Tensor
--- `token_log_probs` returns the log-prob of each target, [T_local], outside any graph. `options`
--- is { temperature }, as in objectives.log_prob.
---@field token_log_probs fun(self: moonring.Reference, batch: moonring.Batch, options: table?):
---   moonring.Tensor
---@field distributions fun(self: moonring.Reference, batch: moonring.Batch): moonring.ReferenceRows

--- What a divergence needs of a reference model that is in memory: two fields of
--- moonring.DivergenceFrom.
---@class moonring.ReferenceRows
---@field reference moonring.Model
---@field hidden moonring.Tensor [T_local, D]

local Live = {}
Live.__index = Live

--- Creates a reference that computes its values with a model in memory.
---@param model moonring.Model
---@return moonring.Reference
function reference.live(model) return setmetatable({ model = model }, Live) end

function Live:log_probs(batch)
  return autograd.no_grad(function()
    local statistics = batch.statistics -- the policy's
    local hidden = batch:hidden(self.model)
    local sums = batch:document_log_probs(self.model, hidden)
    hidden:close() -- frees it before the policy's forward and backward
    batch.statistics = statistics
    return sums
  end)
end

function Live:token_log_probs(batch, options)
  local statistics = batch.statistics -- the policy's
  local hidden = batch:reference_hidden(self.model)
  local log_probs = autograd.no_grad(batch.token_log_probs, batch, self.model, hidden,
    { temperature = (options or {}).temperature })
  hidden:close()
  batch.statistics = statistics
  return log_probs
end

function Live:distributions(batch)
  return { reference = self.model, hidden = batch:reference_hidden(self.model) }
end

local Kept = {}
Kept.__index = Kept

--- Creates a reference whose log-probs are already computed.
---@param log_probs number[][] by example: one per document
---@return moonring.Reference
function reference.kept(log_probs) return setmetatable({ of = log_probs }, Kept) end

function Kept:log_probs(batch)
  if batch.wanted_mask then
    errors.fail("precompute_ref_log_probs: true: the kept log-probs are made without the ",
      "objective's mask; with it the reference must run beside the policy")
  end
  local values, counts = {}, batch:document_counts()
  for i, example in ipairs(batch:examples()) do
    for d = 1, counts[i] do values[#values + 1] = self.of[example + 1][batch.slot + d] end
  end
  return tensor.tensor(values, "fp64")
end

function Kept:token_log_probs()
  errors.fail("precompute_ref_log_probs: true: the objective compares with the reference's ",
    "log-probs of tokens, and those of whole documents are kept")
end

function Kept:distributions()
  errors.fail("precompute_ref_log_probs: true: the objective compares with the reference's whole ",
    "distributions, of which no log-prob is kept")
end

return reference
