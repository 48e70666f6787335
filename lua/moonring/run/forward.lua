--- One micro-batch through the model and the objective.
local tensor = require "moonring.native.tensor"

---@class moonring.forward
local forward = {}

-- What joins a forward to a backward where an objective makes values of its own. They may have left
-- the graph on this rank alone, while others wait for it in their backward: then it joins by the
-- log-probs that were made on the way, whose head ZeRO-3 gathers again, or else by the hidden
-- states.
local function joined_of(values, batch, of_hidden)
  if not values:requires_grad() then return batch.joined or of_hidden end
  return batch.joined and values:sum() + batch.joined or values:sum()
end

--- What the objective's loss takes: log-probs of tokens or documents, or what the objective itself
--- makes of the hidden states. Collective over the sp group.
---@param engine moonring.Engine
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor values
---@return moonring.Tensor joined of this forward, as Tensor:backward takes it
function forward.values(engine, batch, noise)
  local o, model = engine.objective, engine.model
  local hidden, values, joined = batch:hidden(model, noise), nil, nil
  if o.values then
    local of_hidden = hidden:sum() -- now: the objective may close what it is given
    values = o.values(batch, hidden, noise)
    joined = joined_of(values, batch, of_hidden)
  elseif o.level == "token" then
    values = batch:token_log_probs(model, hidden, o)
  else
    values = batch:document_log_probs(model, hidden, o, o.weights and o.weights(batch))
  end
  -- Else it would live through the blocks' backward, beside their inputs.
  if values ~= hidden then hidden:close() end
  return values, joined or values:sum()
end

--- The objective's sum (0 where it gave a number: a rank may have nothing to add) and metrics of
--- one micro-batch. Collective over the sp group.
---@param engine moonring.Engine
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@param reference? moonring.Reference
---@return moonring.Tensor sum
---@return table<string, number[]>? metrics
---@return moonring.Tensor joined of this forward, as Tensor:backward takes it
function forward.loss(engine, batch, noise, reference)
  if engine.objective.needs_reference then -- before the policy's forward, whose activations stay
    if not reference then error("INVALID_ARGUMENT: this objective needs a reference model", 0) end
    batch.reference = reference:log_probs(batch)
  end
  local values, joined = engine:values(batch, noise)
  local sum, more = engine.objective.loss(batch, values)
  if type(sum) == "number" then sum = tensor.tensor({ sum }, "fp64"):sum() end
  return sum, more, joined
end

return forward
