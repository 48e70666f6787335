--- Forward and backward of the datums of one call, on all ranks. Datums are packed into
-- micro-batches, dealt to the dp ranks and cut over the sp ranks; log-probs come back in the order
-- of the call. The result does not depend on the number of ranks.
--
-- A call that fails adds nothing to the gradients: those of earlier calls are set aside while the
-- call computes its own, and are added at its end. The cost is one addition, and during the second
-- and later calls of a step the memory of one more set of gradients.
local autograd = require "moonring.native.autograd"
local batches = require "moonring.run.batch"
local batching = require "moonring.choices.batching"
local creation = require "moonring.base.creation"
local data = require "moonring.native.data"
local datum_checks = require "moonring.serve.datum_checks"
local datums = require "moonring.serve.datums"
local errors = require "moonring.base.errors"
local losses = require "moonring.serve.losses"
local tensor = require "moonring.native.tensor"
local trainer = require "moonring.native.trainer"

---@class moonring.serve.passes
local passes = {}

--- What one call computes with.
---@class moonring.serve.Call
---@field service moonring.Service
---@field model moonring.Model
---@field loss moonring.serve.Loss
---@field config table<string, number> of the loss
---@field joined moonring.serve.Joined
---@field step moonring.Step
---@field trains boolean false: no gradient

-- The call's datums as a step, packed as a training's examples are.
local function step_of(service, list)
  local examples = {}
  for i, datum in ipairs(list) do
    local ids = datum.tokens:tolist()
    examples[i] = { ids = ids, labels = ids }
  end
  return data.step { examples = examples, mesh = service.mesh,
    micro_batch_tokens = batching.micro_batch_tokens(service.config) }
end

-- The joined inputs at some positions, on the device of `like`.
local function inputs_at(joined, rows, like)
  local of = {}
  for name, values in pairs(joined.inputs) do of[name] = values:index_select(0, rows):on(like) end
  return of
end

-- Runs one micro-batch: writes this rank's log-probs into `all` ([S] or [S, K], fp64, CPU), and
-- adds to the gradients.
local function pass(call, micro, all)
  local batch = batches.new(micro, call.service.attention, call.service.mesh)
  local rows = batch:cut(datums.positions(call.joined, micro:places()))
  batch.cut_targets = call.joined.targets:index_select(0, rows)
  local hidden = batch:hidden(call.model)
  local log_probs = batch:token_log_probs(call.model, hidden)
  hidden:close()
  all:index_copy_(0, rows, log_probs:detach():to("cpu", "fp64"))
  if not call.trains then return end
  local of = inputs_at(call.joined, rows, log_probs)
  local sum = call.loss.terms(log_probs:to "fp64", of, call.config):sum()
  if sum:requires_grad() then sum:backward(log_probs:sum()) end
end

local function run_all(call, all)
  local function each()
    for _, micro in ipairs(call.step:micro_batches()) do tensor.scope(pass, call, micro, all) end
  end
  if call.trains then return each() end
  autograd.no_grad(each)
end

-- The first module whose output is not finite on any rank, as words; nil if all outputs are finite.
-- Collective over all ranks.
local function first_module(call)
  local place, module = math.huge, ""
  for _, micro in ipairs(call.step:micro_batches()) do
    tensor.scope(autograd.no_grad, function()
      local batch = batches.new(micro, call.service.attention, call.service.mesh)
      local at, name = call.model:first_nonfinite(batch.ids, batch.positions, batch.plan)
      if at > 0 and at < place then place, module = at, name end
    end)
  end
  local first, found = math.huge, nil
  for _, text in ipairs(call.service.mesh:gather(("%g %s"):format(place, module))) do
    local at, name = text:match "^(%S+) (.*)$"
    if tonumber(at) < first then first, found = tonumber(at), name end
  end
  return found
end

-- The index of the first element for which a bool tensor is true; nil if there is none.
local function first_of(mask)
  if not mask:any():item() then return nil end
  return mask:flatten():nonzero()[{ 0, 0 }]:item()
end

-- Raises the error for log-probs that are not finite, though all inputs were.
local function refuse_log_probs(call, all)
  local flat = first_of(all:isfinite():logical_not())
  local module = first_module(call)
  errors.raise("INTERNAL", datums.place(call.joined, flat), ": the model's log-prob is ",
    tostring(all:flatten()[flat]:item()), module and "; first not finite after " .. module
    or "; the layers' results are finite, the logits are not",
    ". The call has added nothing: the weights may have diverged, and load_weights of an earlier ",
    "state would restore them")
end

-- Raises the error for gradients that are not finite, though all log-probs are.
local function refuse_gradients(call, all, names)
  local lp = all:clone():requires_grad_()
  local terms = call.loss.terms(lp, call.joined.inputs, call.config)
  local slopes = autograd.grad(terms:sum(), lp):to "fp32"
  local flat = first_of(slopes:isfinite():logical_not())
  if flat then
    local of = {}
    for name, values in pairs(call.joined.inputs) do
      of[#of + 1] = ("%s %g"):format(name, values:flatten()[flat]:item())
    end
    table.sort(of)
    errors.fail(datums.place(call.joined, flat), ": the gradient of ", call.loss.name,
      " is not finite in fp32 with ", table.concat(of, ", "), (" and a log-prob of %g"):format(
      all:flatten()[flat]:item()), ". The call has added nothing")
  end
  errors.raise("INTERNAL", "the gradient is not finite in ", names, ", though all log-probs are. ",
    "The call has added nothing: the weights may have diverged, and load_weights of an earlier ",
    "state would restore them")
end

-- The names of some parameters whose gradient is not finite on any rank; nil if there are none.
-- Collective over all ranks.
local function broken_gradients(mesh, parameters)
  local names = {}
  local norm = trainer.global_norm(parameters)
  if norm ~= norm or norm == math.huge then
    for _, each in ipairs(parameters:list()) do
      local gradient = each:gradient()
      local broken = gradient and not gradient:isfinite():all():item()
      if broken and #names < 3 then names[#names + 1] = each:name() end
    end
    if #names == 0 then names[1] = "the norm of all parameters" end
  end
  for _, text in ipairs(mesh:gather(table.concat(names, ", "))) do
    if text ~= "" then return text end
  end
end

-- Computes log-probs of all positions, the same on every rank, and gradients of this rank's share.
local function compute(call, parameters)
  local mesh = call.service.mesh
  local mine = creation.zeros(call.joined.targets:shape(), { dtype = "fp64" })
  run_all(call, mine)
  -- Exact: each number is on one rank, and the others have 0.
  local all = mesh:sum_dp(mesh:sum_sp(mine))
  if not all:isfinite():all():item() then refuse_log_probs(call, all) end
  local names = call.trains and broken_gradients(mesh, parameters)
  if names then refuse_gradients(call, all, names) end
  return all
end

-- Runs `compute` with the gradients of earlier calls set aside.
local function with_own_gradients(call, parameters)
  if not call.trains then return compute(call) end
  local earlier = parameters:take_gradients()
  local ok, all = pcall(compute, call, parameters)
  if not ok then parameters:clear_gradients() end
  parameters:add_gradients(earlier)
  if not ok then error(all, 0) end
  return all
end

--- Runs a call. Collective over all ranks. Errors, after which gradients are as before the call:
--- INVALID_ARGUMENT or UNIMPLEMENTED for the request, before anything is computed; INVALID_ARGUMENT
--- if the loss of finite numbers has no finite gradient; INTERNAL, with the module, for a log-prob
--- or a gradient of the model that is not finite.
---@param service moonring.Service
---@param model moonring.Model
---@param request table of serve.read_forward_backward: data, loss_fn, loss_fn_config, forward_only
---@param vocabulary integer number of ids
---@return moonring.Tensor[] log_probs of each datum, in fp64
---@return table<string, number> metrics
function passes.run(service, model, request, vocabulary)
  local loss = losses.of(request.loss_fn)
  local config = losses.config(loss, request.loss_fn_config)
  datum_checks.check(request.data, loss, vocabulary)
  return tensor.scope(function()
    local joined = datums.join(request.data, loss)
    local call = { service = service, model = model, loss = loss, config = config, joined = joined,
      trains = not request.forward_only, step = step_of(service, request.data) }
    local all = with_own_gradients(call, model:parameters())
    local log_probs = datums.split(joined, all)
    for _, each in ipairs(log_probs) do each:keep() end
    return log_probs, losses.metrics(loss, all, joined.inputs, config, joined.targets:ge(0))
  end)
end

return passes
