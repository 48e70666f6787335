--- Runs a batch through a model's forward: prepares the arguments and stores the results.

local options = require "moonring.base.options"

---@class moonring.batch_forward
local batch_forward = {}

-- Refuses a micro-batch with shared prefixes, for an option for which each token must belong to one
-- document.
local function refuse_shared(batch, what)
  if batch:sequence():parents() then
    options.refuse(what, "not with shared prefixes (share_prefixes), whose tokens are of several ",
      "documents")
  end
end

--- Adds to `noise` a number for each of this rank's tokens, by which a model's forward draws random
--- numbers independent of sp and packing. Returns nil for nil.
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return table?
function batch_forward.noise(batch, noise)
  if not noise then return nil end
  if noise.neftune_alpha then refuse_shared(batch, "neftune_alpha") end
  local sequence = batch:sequence()
  local identity = sequence:identity() or sequence:of_tokens {} -- none for an empty sequence
  local lengths = noise.neftune_alpha and batch:cut(sequence:of_tokens(sequence:lengths())) or nil
  return { seed = noise.seed, step = noise.step, neftune_alpha = noise.neftune_alpha,
    identity = batch:cut(identity), lengths = lengths }
end

--- The group of each of this rank's tokens, from 0: examples are grouped by position in the step.
---@param batch moonring.Batch
---@param size integer examples per group
---@return moonring.Tensor int64 [T_local]
function batch_forward.groups(batch, size)
  refuse_shared(batch, "router")
  local of_documents, counts = {}, batch:document_counts()
  for i, place in ipairs(batch:places()) do
    for _ = 1, counts[i] do of_documents[#of_documents + 1] = math.floor(place / size) end
  end
  return batch:cut(batch:sequence():of_tokens(of_documents))
end

--- Implements Batch:hidden: the hidden states after the model's final norm, or after the layer at
--- which `hooks` ends the forward.
---@param batch moonring.Batch
---@param model moonring.Model
---@param noise? table { seed, step, neftune_alpha }
---@param hooks? table { states, upto, around, inside } of Model:forward
---@return moonring.Tensor hidden_TD [T_local, D]
function batch_forward.hidden(batch, model, noise, hooks)
  local drawn, router, tally, how = batch:noise(noise), batch.router, {}, {}
  batch.head_noise = drawn and { model = model, drawn = drawn } or nil
  for name, value in pairs(drawn or {}) do how[name] = value end
  for name, value in pairs(hooks or {}) do how[name] = value end
  if router then
    how.router_groups, how.router_group_count = batch:groups(router.size), router.groups
  end
  local hidden
  hidden, batch.states, tally.probability, tally.chosen = model:forward(batch.ids, batch.positions,
    batch.plan, how)
  batch.tally = tally.probability and tally
  return hidden
end

--- The model's head for the hidden states of the batch's last forward: LoRA on the head applies the
--- dropout of that forward, if it was a forward of this model with noise.
---@param batch moonring.Batch
---@param model moonring.Model
---@return moonring.Head
function batch_forward.head(batch, model)
  local noise = batch.head_noise
  return model:head(noise and noise.model == model and noise.drawn or nil)
end

return batch_forward
