--- Records what the lines of an objective compute: each operator and method that a line of its file
-- calls (tracing.lua), with its line and its result.
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

---@class moonring.check_recorder
---@field entries moonring.TraceEntry[]
---@field on boolean
---@field sources table<string, string> the objective's files: "@FILE" -> FILE
---@field change? fun(key: string, result: any): any may replace a result
local recorder = {}
recorder.entries, recorder.on, recorder.sources = {}, false, {}

--- One call.
---@class moonring.TraceEntry
---@field key string function, line, name and occurrence: the same in every layout
---@field place string "FILE:LINE"
---@field name string of the operator or method
---@field call integer number of the call of the objective's function
---@field result any
---@field arguments any[]
---@field value? moonring.Fingerprint
---@field gradient? moonring.Fingerprint
---@field breaks? boolean an argument has a gradient and the result has none

--- What is compared of a tensor or number: `scalar`, its elements, their sum, the sum of their
--- squares, the sum of their absolute values, and whether all are finite.
---@alias moonring.Fingerprint { scalar: boolean, n: integer, s1: number, s2: number, size: number,
---   finite: boolean }

local current = { call = 0, seen = {} } -- the running function of the objective

--- The fingerprint of a value; nil if it is not numeric.
---@param value any
---@return moonring.Fingerprint?
function recorder.fingerprint(value)
  if type(value) == "boolean" then value = value and 1 or 0 end
  if type(value) == "number" then
    local finite = value == value and math.abs(value) < math.huge
    if not finite then value = 0 end
    return { scalar = true, n = 1, s1 = value, s2 = value ^ 2, size = math.abs(value),
      finite = finite }
  elseif not tensor.is_tensor(value) then
    return nil
  end
  local x = value:detach():to "fp64"
  local finite = x:isfinite():all():item() ~= 0
  x = x:nan_to_num()
  return { scalar = x:dim() == 0, n = x:numel(), s1 = x:sum():item(), s2 = x:square():sum():item(),
    size = x:abs():sum():item(), finite = finite }
end

local function tensors_among(list)
  local found = {}
  for _, each in ipairs(list) do
    if tensor.is_tensor(each) then
      found[#found + 1] = each
    elseif type(each) == "table" and getmetatable(each) == nil then
      for _, inner in ipairs(each) do
        found[#found + 1] = tensor.is_tensor(inner) and inner or nil
      end
    end
  end
  return found
end

local function differentiable(value)
  return tensor.is_tensor(value) and value:requires_grad()
end

-- Whether a call leaves the graph: something with a gradient went in, and floating-point numbers
-- without one came out.
local function leaves(arguments, result)
  if differentiable(result) or type(result) == "boolean" or result == nil then return false end
  if tensor.is_tensor(result) and not result:is_floating_point() then return false end
  for _, each in ipairs(arguments) do
    if each:requires_grad() then return true end
  end
  return false
end

--- Records a value. Returns it, or what `change` put in its place.
---@param line integer
---@param file string
---@param name string
---@param given any[] arguments
---@param result any
---@return any
function recorder.record(line, file, name, given, result)
  local id = current.name .. ":" .. line .. ":" .. name
  current.seen[id] = (current.seen[id] or 0) + 1
  local key = id .. ":" .. current.seen[id]
  if recorder.change then
    local changed = recorder.change(key, result)
    if changed ~= nil then result = changed end
  end
  if not recorder.on then return result end
  local arguments = tensors_among(given)
  local entry = { key = key, place = file .. ":" .. line, name = name, call = current.call,
    result = result, arguments = arguments, value = recorder.fingerprint(result),
    breaks = leaves(arguments, result) or nil }
  if differentiable(result) then
    result:retain_grad()
    entry.differentiable, entry.shape = true, result:shape()
  end
  recorder.entries[#recorder.entries + 1] = entry
  return result
end

--- The function of the objective that runs now.
---@return { name?: string, info?: table, text?: string }
function recorder.running() return current end

--- Calls a function of the objective, which the entries then name.
---@param name string
---@param f function the objective's own, for its file and lines
---@param called function what is called
---@param finish fun(...) gets the results
---@param ... any the arguments of `called`
function recorder.enter(name, f, called, finish, ...)
  local before = current
  local info = debug.getinfo(f, "S")
  local file = recorder.sources[info.source]
  current = { name = name, call = before.call + 1, seen = {}, info = info,
    text = file and system.read(file) or "", first = #recorder.entries + 1 }
  local results = { called(...) } -- not a tail call: tracing.lua looks for this frame
  finish(unpack(results, 1, math.max(#results, 1)))
  before.call, current = current.call, before
  return unpack(results, 1, math.max(#results, 1))
end

--- Records what a function of the objective is given: a tensor, or several by name.
---@param line integer
---@param file string
---@param values any
---@return any values, or what `change` put in their place
function recorder.given(line, file, values)
  if tensor.is_tensor(values) then return recorder.record(line, file, "input", {}, values) end
  if type(values) ~= "table" then return values end
  local names, changed = {}, {}
  for name in pairs(values) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    changed[name] = recorder.record(line, file, "input " .. name, {}, values[name])
  end
  return changed
end

--- Records what a function of the objective returns, at the line that computed it.
---@param name string such as "returned loss"
---@param line integer used if no line is known to have computed it
---@param file string
---@param value any
function recorder.returned(name, line, file, value)
  if not recorder.on then return end
  local place = file .. ":" .. line
  for i = current.first, #recorder.entries do
    local each = recorder.entries[i]
    if rawequal(each.result, value) then place = each.place end
  end
  recorder.entries[#recorder.entries + 1] = { key = current.name .. ":" .. name, place = place,
    name = name, call = current.call, arguments = {}, value = recorder.fingerprint(value) }
end

--- Reads the gradients of the entries. Call it after each backward, before tensors are freed.
function recorder.read_gradients()
  for _, entry in ipairs(recorder.entries) do
    if entry.differentiable and not entry.gradient and not entry.is_read then
      entry.is_read = true
      local ok, gradient = pcall(function() return entry.result:grad() end)
      if ok and gradient then
        entry.gradient = recorder.fingerprint(gradient)
        if recorder.keeps then entry.full = gradient:clone():keep() end
      end
    end
  end
end

--- Begins a recording.
function recorder.begin()
  recorder.entries, recorder.on = {}, true
  current = { call = 0, seen = {} }
end

return recorder
