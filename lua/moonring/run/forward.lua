--- Runs one micro-batch through the model and the objective.
local errors = require "moonring.base.errors"
local tensor = require "moonring.native.tensor"

---@class moonring.forward
local forward = {}

local function is_callable(value)
  local metatable = getmetatable(value)
  return type(value) == "function" or type(metatable) == "table" and metatable.__call ~= nil
end

-- Adapts an objective's `around` to a model's forward: its functions also get the batch.
local function around_of(around, batch)
  if around == nil then return nil end
  if is_callable(around) then
    return function(layer, hidden) return around(layer, hidden, batch) end
  end
  local by_layer = {}
  for layer, of_layer in pairs(around) do
    if not is_callable(of_layer) then
      errors.fail("objective: around: layer ", layer, ": wanted a function, got a ", type(of_layer))
    end
    by_layer[layer] = function(hidden) return of_layer(hidden, batch) end
  end
  return by_layer
end

--- The options of the model's forward that the objective sets: functions around layers, and the
--- layer after which the forward ends.
---@param engine moonring.Engine
---@param batch moonring.Batch
---@return table { around, upto } options of Model:forward
function forward.hooks(engine, batch)
  local o = engine.objective
  return { around = around_of(o.around, batch), upto = o.upto }
end

--- The hidden states that an objective gets from the model. Those after the layers in the
--- objective's `states` are stored in batch.states. Collective over the sp group.
---@param engine moonring.Engine
---@param batch moonring.Batch
---@param noise? table { seed, step, neftune_alpha }
---@return moonring.Tensor hidden_TD [T_local, D]
function forward.hidden(engine, batch, noise)
  local hooks = forward.hooks(engine, batch)
  hooks.states = engine.objective.states
  return batch:hidden(engine.model, noise, hooks)
end

-- The tensors that an objective's `values` returned, as a list: one tensor, or those of a table, in
-- an order by name that is the same on every rank. Errors: INVALID_ARGUMENT for anything else.
local function tensors_of(values)
  if type(values) == "userdata" then return { values } end
  local names, list = {}, {}
  for name in pairs(type(values) == "table" and values or {}) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for i, name in ipairs(names) do list[i] = values[name] end
  for _, each in ipairs(list) do
    if type(each) ~= "userdata" then list = {} end
  end
  if #list == 0 then
    error("INVALID_ARGUMENT: the objective's values: wanted a tensor or a table of tensors, got "
      .. (type(values) == "table" and "a table with something else, or nothing, in it"
      or type(values)), 0)
  end
  return list
end

-- A scalar that connects a forward to its backward, for an objective with its own values. The
-- values may have no graph on this rank while other ranks wait for it in their backward. It then
-- depends on the tensors computed from a head (log-probs, divergences), for which ZeRO-3 gathers
-- weights again in the backward, or else on the hidden states.
local function joined_of(tensors, batch, of_hidden)
  local sum = batch.joined
  for _, each in ipairs(tensors) do
    if each:requires_grad() then sum = sum and sum + each:sum() or each:sum() end
  end
  return sum or of_hidden
end

-- Adds all of the kept states: a loss may use different ones on each rank, or none, but every rank
-- must run every block's backward.
local function joined_by_states(joined, batch, of_hidden)
  if not batch.states then return joined end
  local sum = of_hidden
  for _, state in ipairs(tensors_of(batch.states)) do sum = sum + state:sum() end
  return joined and joined + sum:to(joined:dtype()) or sum
end

--- The input of the objective's loss: log-probs of tokens or documents, or the result of the
--- objective's `values` on the hidden states. Collective over the sp group.
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
    local made = tensors_of(values)
    joined = joined_of(made, batch, of_hidden)
    for _, each in ipairs(made) do kept = kept or rawequal(each, hidden) end
  elseif o.level == "token" then
    values = batch:token_log_probs(model, hidden, o)
  else
    values = batch:document_log_probs(model, hidden, o, o.weights and o.weights(batch))
  end
  -- Otherwise it would stay in memory during the blocks' backward, in addition to their inputs.
  if not kept then hidden:close() end
  return values, joined_by_states(joined or values:sum(), batch, of_hidden)
end

-- Runs the reference before the policy's forward, whose activations stay in memory.
local function look_at_reference(engine, batch, reference)
  local wanted = engine.objective.needs_reference
  if not wanted or wanted == "scored" then return end
  if not reference then error("INVALID_ARGUMENT: this objective needs a reference model", 0) end
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

--- The objective's sum and metrics of one micro-batch. If the objective returns a number, which a
--- rank with nothing to add may do, it becomes a tensor without a graph. Collective over the sp
--- group.
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
  if type(sum) == "number" then sum = tensor.tensor({ sum }, "fp64"):sum() end
  return sum, more, joined
end

return forward
