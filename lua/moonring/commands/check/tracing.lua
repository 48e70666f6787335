--- Replaces functions of tensors, batches and modules by ones that record calls from the files of
-- an objective (recorder.lua). This is for a process that does nothing else.
local objectives = require "moonring.native.objectives"
local operators = require "moonring.native.operators"
local recorder = require "moonring.commands.check.recorder"
local tensor = require "moonring.native.tensor"

---@class moonring.check_tracing
local tracing = {}

local getinfo = debug.getinfo

-- A tail call `return f(x)` has no line of its own: that of the return is found in the file.
local function line_of_return(info, name)
  local text, line = recorder.running().text, 0
  local found = info.lastlinedefined
  for each in (text .. "\n"):gmatch "(.-)\n" do
    line = line + 1
    local is_inside = line >= info.linedefined and line <= info.lastlinedefined
    if is_inside and each:find("return", 1, true) and each:find(name, 1, true) then found = line end
  end
  return found
end

-- The function that records calls of f from the objective's files.
local function traced(name, f)
  local function wrapper(...)
    local info = getinfo(2, "Slf")
    local file = info and recorder.sources[info.source]
    local line = file and info.currentline
    local running = recorder.running()
    if not file and info and info.func == recorder.enter and running.info then
      file, line = recorder.sources[running.info.source], line_of_return(running.info, name)
    end
    if not file or not running.name then return f(...) end
    local results = { f(...) }
    results[1] = recorder.record(line, file, name, { ... }, results[1])
    return unpack(results, 1, math.max(#results, 1))
  end
  return wrapper
end

-- Names that say nothing about values, or that change the graph's bookkeeping.
local SKIPPED = { requires_grad = true, backward = true, shape = true, size = true, dim = true,
  numel = true, dtype = true, device = true, close = true, keep = true, grad = true,
  grad_fn = true, sequence = true, retain_grad = true, is_floating_point = true,
  requires_grad_ = true }

local function trace_table(functions)
  for name, f in pairs(functions) do
    local is_own = type(name) == "string" and name:find "^__"
    if type(f) == "function" and not is_own and not SKIPPED[name] then
      rawset(functions, name, traced(name, f))
    end
  end
end

local METHODS = { "__add", "__sub", "__mul", "__div", "__pow", "__mod", "__unm" }

local function trace_tensors(after_backward)
  local class = debug.getmetatable(tensor.tensor { 0 })
  local index, cache = class.__index, {}
  class.__index = function(x, key)
    if type(key) ~= "string" then return cache.at(x, key) end
    if cache[key] then return cache[key] end
    local f = index(x, key)
    if type(f) ~= "function" then return f end
    cache[key] = key == "backward" and function(...)
      f(...)
      after_backward()
    end or SKIPPED[key] and f or traced(key, f)
    return cache[key]
  end
  cache.at = traced("[]", index)
  for _, name in ipairs(METHODS) do class[name] = traced(name:sub(3), class[name]) end
end

local function trace_operators()
  local meta = debug.getmetatable(operators.ops)
  local look_up = meta.__index
  trace_table(operators.ops)
  meta.__index = function(ops, name)
    local f = traced(name, look_up(ops, name))
    rawset(ops, name, f)
    return f
  end
end

--- Begins to trace the calls from these files.
---@param files table<string, string> by source
---@param batch moonring.Batch
function tracing.install(files, batch)
  recorder.sources = files
  trace_tensors(recorder.read_gradients)
  trace_operators()
  trace_table(objectives)
  trace_table(debug.getmetatable(batch))
  trace_table(debug.getmetatable(batch.mesh).__index)
  local api = package.loaded["moonring"]
  for _, name in ipairs { "cat", "zeros", "ones", "full", "arange", "rand", "randn", "tensor" } do
    if api then rawset(api, name, traced(name, api[name])) end
  end
end

return tracing
