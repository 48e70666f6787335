--- `moonring.autograd`: the native functions (lua/types/autograd.lua), and the function
-- `checkpoint`, which recomputes activations in the backward.
local errors = require "moonring.base.errors"
local native = require "moonring.native.autograd"
local tensor = require "moonring.native.tensor"

---@class moonring.autograd: moonring.native.autograd
local autograd = {}
for name, f in pairs(native) do autograd[name] = f end

-- Separates the arguments of a call into tensors, with their argument numbers, and other values.
local function split(...)
  local call = { count = select("#", ...), values = { ... }, tensors = {}, places = {} }
  for i = 1, call.count do
    if tensor.is_tensor(call.values[i]) then
      call.tensors[#call.tensors + 1], call.places[#call.places + 1] = call.values[i], i
      call.values[i] = nil
    end
  end
  return call
end

-- Rebuilds the argument list, with `tensors` at the positions of the original tensors.
local function arguments(call, tensors)
  local all = {}
  for i = 1, call.count do all[i] = call.values[i] end
  for i, place in ipairs(call.places) do all[place] = tensors[i] end
  return unpack(all, 1, call.count)
end

-- Runs fn once more, with gradients enabled. Returns the gradients of its input tensors, given the
-- gradients of its results.
local function again(fn, call, tensors, given)
  local leaves = {}
  for i, each in ipairs(tensors) do
    leaves[i] = each:detach()
    if each:is_floating_point() then leaves[i]:requires_grad_() end
  end
  local results = { native.with_grad(fn, arguments(call, leaves)) }
  local outputs, gradients = {}, {}
  for i, each in ipairs(results) do
    if tensor.is_tensor(each) and each:requires_grad() then
      outputs[#outputs + 1], gradients[#gradients + 1] = each, given[i]
    end
  end
  if #outputs > 0 then native.backward(outputs, { gradients = gradients }) end
  local found = {}
  for i, each in ipairs(leaves) do found[i] = each:grad() end
  return found
end

--- Calls fn(...) without keeping its activations and recomputes them in backward, which saves
--- memory at the cost of one more forward. Tensors that need a gradient must be arguments of fn or
--- weights of modules. fn must compute the same both times (random operators need a seed). Second
--- derivatives are not supported.
---@param fn fun(...): ... or a module
---@param ... any arguments of fn
---@return moonring.Tensor ...
function autograd.checkpoint(fn, ...)
  local call = split(...)
  local module = fn
  if type(fn) ~= "function" then fn = function(...) return module(...) end end
  local recompute = native.func { name = "checkpoint",
    forward = function(ctx, _, ...)
      ctx:save(...)
      return fn(arguments(call, { ... }))
    end,
    backward = function(ctx, ...)
      if native.is_recording() then
        errors.fail "checkpoint: a second derivative was asked for; there is none"
      end
      local found = again(fn, call, { ctx:saved() }, { ... })
      return nil, unpack(found, 1, #call.tensors)
    end }
  -- This dummy input requires a gradient, so autograd records the call even if only weights inside
  -- fn are trained.
  local anchor = tensor.tensor({}, { requires_grad = true })
  return recompute(anchor, unpack(call.tensors, 1, #call.tensors))
end

return autograd
