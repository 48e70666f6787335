--- Finds where a non-finite loss or gradient came from: step, examples, layer.
local autograd = require "moonring.native.autograd"
local errors = require "moonring.base.errors"
local forward = require "moonring.run.forward"
local tensor = require "moonring.native.tensor"

---@class moonring.nonfinite
local nonfinite = {}

local LOSS = "step %d: the loss is %s, with the examples %s of the data set (counted "
  .. "from 0) in the micro-batch; %s"

--- Whether a number is neither NaN nor infinite.
---@param x number
---@return boolean
function nonfinite.is_finite(x) return x == x and math.abs(x) < math.huge end

-- Formats a list of examples as text: "3, 17, ...".
local function listed(examples)
  local most = math.min(#examples, 8)
  return table.concat(examples, ", ", 1, most) .. (#examples > most and ", ..." or "")
end

-- Finds the first module whose output is non-finite on any rank, by a forward of the step's
-- micro-batches without gradients. Returns nil if all outputs are finite. Every rank must call it.
local function first_module(engine, step, noise)
  local place, module = math.huge, ""
  for _, micro in ipairs(engine:micro_batches(step:micro_batches())) do
    tensor.scope(autograd.no_grad, function()
      local batch = engine:batch(micro)
      local how = batch:noise(noise) or {}
      for key, value in pairs(forward.hooks(engine, batch)) do how[key] = value end
      local at, name = engine.model:first_nonfinite(batch.ids, batch.positions, batch.plan, how)
      if at > 0 and at < place then place, module = at, name end
    end)
  end
  local first = math.huge
  local found
  for _, text in ipairs(engine.mesh:gather(("%g %s"):format(place, module))) do
    local at, name = text:match "^(%S+) (.*)$"
    if tonumber(at) < first then first, found = tonumber(at), name end
  end
  return found
end

--- The error for a non-finite loss, with the step, the examples and the first module whose output
--- is non-finite.
--- Collective over all ranks.
---@param engine moonring.Engine
---@param step moonring.Step
---@param noise? table { seed, step, neftune_alpha }
---@param loss number
---@param suspects integer[] this rank's examples, of the micro-batches with a non-finite loss
---@param k integer the step's number
---@return moonring.Error
function nonfinite.of_loss(engine, step, noise, loss, suspects, k)
  local named, list = {}, {}
  for _, text in ipairs(engine.mesh:gather(table.concat(suspects, " "))) do
    for example in text:gmatch "%S+" do named[tonumber(example)] = true end
  end
  for example in pairs(named) do list[#list + 1] = example end
  table.sort(list)
  local module = first_module(engine, step, noise)
  return errors.new("ABORTED", LOSS:format(k, tostring(loss), listed(list), module
    and "first after " .. module or "the layers' results are finite, the loss of them is not"))
end

--- The error for a non-finite gradient, with the step and its examples.
---@param step moonring.Step
---@param why moonring.Error the error that States:norm raised
---@param k integer the step's number
---@return moonring.Error
function nonfinite.of_gradient(step, why, k)
  return errors.with(why, "; step ", k, ", examples ", listed(step:examples()),
    " of the data set (counted from 0)")
end

return nonfinite
