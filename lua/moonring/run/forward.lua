--- Runs one micro-batch through the model and the objective.
local errors = require "moonring.base.errors"
local loss_table = require "moonring.run.loss_table"
local returned = require "moonring.run.returned"
local tensor = require "moonring.native.tensor"

---@class moonring.forward
local forward = {}

local function is_callable(value)
  local metatable = getmetatable(value)
  return type(value) == "function" or type(metatable) == "table" and metatable.__call ~= nil
end

-- Adapts an objective's `around`, the functions around the model's layers: they also receive the
-- batch.
local function around_of(around, batch)
  if around == nil then return nil end
  if is_callable(around) then
    return function(layer, hidden) return around(layer, hidden, batch) end
  end
  local by_layer = {}
  for layer, of_layer in pairs(around) do
    if not is_callable(of_layer) then
      errors.fail("objective: around: layer ", layer, ": expected a function, got a ",
        type(of_layer))
    end
    by_layer[layer] = function(hidden) return of_layer(hidden, batch) end
  end
  return by_layer
end

-- The number of arguments of a function inside a block, without the batch; 1 if not listed.
local ARGUMENTS = { given = 0, rows = 2, qkv = 4 }

-- Adapts an objective's `inside`, the functions inside the model's blocks: they receive the batch
-- as a further argument, after all others.
local function inside_of(inside, batch)
  if inside == nil then return nil end
  local by_block = {}
  for block, hooks in pairs(inside) do
    if type(hooks) ~= "table" then
      errors.fail("objective: inside: block ", block, ": expected a table, got a ", type(hooks))
    end
    by_block[block] = {}
    for name, hook in pairs(hooks) do
      by_block[block][name] = hook
      if type(hook) == "function" then
        local count = ARGUMENTS[name] or 1
        by_block[block][name] = function(a, b, c, d)
          if count == 0 then return hook(batch) end
          if count == 1 then return hook(a, batch) end
          if count == 2 then return hook(a, b, batch) end
          return hook(a, b, c, d, batch)
        end
      end
    end
  end
  return by_block
end

--- The options of Model:forward that the objective sets: `around`, functions around layers,
--- `inside`, functions inside blocks, and `upto`, the layer after which the forward ends.
---@param engine moonring.Engine
---@param batch moonring.Batch
---@return table { around, inside, upto } options of Model:forward
function forward.hooks(engine, batch)
  local o = engine.objective
  return { around = around_of(o.around, batch), inside = inside_of(o.inside, batch),
    upto = o.upto }
end

--- Computes the hidden states that the objective receives. Those after the layers that the
--- objective lists in `states` are stored in batch.states. Collective over the sp group.
---@param engine moonring.Engine
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor hidden_TD [T_local, D]
function forward.hidden(engine, batch, noise)
  local hooks = forward.hooks(engine, batch)
  hooks.states = engine.objective.states
  return batch:hidden(engine.model, noise, hooks)
end

-- A scalar from which a backward reaches this forward, for an objective that computes its own
-- values. The values may have no graph on this rank, but other ranks wait for this rank in their
-- backward. The scalar then depends on the tensors computed from the language-model head
-- (log-probs, divergences), for which ZeRO-3 gathers weights again in the backward, or else on the
-- hidden states.
local function joined_of(tensors, batch, of_hidden)
  local sum = batch.joined
  for _, each in ipairs(tensors) do
    if each:requires_grad() then sum = sum and sum + each:sum() or each:sum() end
  end
  return sum or of_hidden
end

-- Adds the sums of all kept hidden states to `joined`. A loss may use other states on each rank, or
-- none, but the backward of every block must run on every rank.
local function joined_by_states(joined, batch, of_hidden)
  if not batch.states then return joined end
  local sum = of_hidden
  for _, state in pairs(batch.states) do sum = sum + state:sum() end
  return joined and joined + sum:to(joined:dtype()) or sum
end

--- Runs the forward and returns the values that the objective's loss expects: log-probs of tokens
--- or documents, or the result of the objective's own function `values` on the hidden states.
--- Collective over the sp group.
---@param engine moonring.Engine
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor | table<string, moonring.Tensor> values
---@return moonring.Tensor joined of this forward, for Tensor:backward
function forward.values(engine, batch, noise)
  local o, model = engine.objective, engine.model
  local hidden = forward.hidden(engine, batch, noise)
  local of_hidden = (o.values or batch.states) and hidden:sum() -- first: `values` may close it
  local values, joined
  local kept = false
  if o.values then
    values = o.values(batch, hidden, noise)
    local made = returned.values(o.values, values)
    joined = joined_of(made, batch, of_hidden)
    for _, each in ipairs(made) do kept = kept or rawequal(each, hidden) end
  elseif o.level == "token" then
    values = batch:token_log_probs(model, hidden, o)
  else
    local weights = o.weights and returned.weights(batch, o.weights)
    values = batch:document_log_probs(model, hidden, o, weights)
  end
  -- The hidden states are freed. Otherwise they would stay in memory during the blocks' backward,
  -- in addition to the blocks' inputs.
  if not kept then hidden:close() end
  return values, joined_by_states(joined or values:sum(), batch, of_hidden)
end

-- Computes what the objective needs of the reference model. This comes before the policy's forward,
-- whose activations stay in memory.
local function look_at_reference(engine, batch, reference)
  local wanted = engine.objective.needs_reference
  if not wanted or wanted == "scored" then return end
  if not reference then errors.fail "this objective needs a reference model" end
  local watched = batch.router
  batch.router = nil -- only the policy's routers are balanced
  if wanted == "tokens" then
    batch.reference = reference:token_log_probs(batch,
      { temperature = engine.objective.temperature })
  elseif wanted == "distributions" then
    batch.reference = reference:distributions(batch)
  else
    batch.reference = reference:log_probs(batch)
  end
  batch.router = watched
end

--- The objective's sum and metrics of one micro-batch. If the objective returns a number instead of
--- a tensor, as a rank with nothing to add may do, it is converted to a tensor without a graph.
--- Collective over the sp group.
---@param engine moonring.Engine
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@param reference? moonring.Reference
---@return moonring.Tensor sum
---@return table<string, number[]>? metrics
---@return moonring.Tensor joined of this forward, for Tensor:backward
function forward.loss(engine, batch, noise, reference)
  look_at_reference(engine, batch, reference)
  local values, joined = engine:values(batch, noise)
  local sum, more = engine.objective.loss(batch, values)
  for _, state in pairs(batch.states or {}) do state:close() end -- like the hidden states
  if engine.objective.losses then sum = loss_table.pick(engine, sum) end
  returned.loss(engine.objective.loss, sum, more)
  if type(sum) == "number" then sum = tensor.tensor({ sum }, "fp64"):sum() end
  if batch.exchanged then joined = joined + batch.exchanged:to(joined:dtype()) end
  return sum, more, joined
end

return forward
