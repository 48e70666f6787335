--- The process that looks for the line of an objective at which a layout differs from the base, or
-- whose gradient is not that of the loss. It makes the step of a layout with the recorder.
local differences = require "moonring.commands.check.differences"
local layout = require "moonring.commands.check.layout"
local layouts = require "moonring.commands.check.layouts"
local measured_run = require "moonring.commands.check.measured_run"
local creation = require "moonring.base.creation"
local recorder = require "moonring.commands.check.recorder"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"
local tracing = require "moonring.commands.check.tracing"

---@class moonring.check_trace
local trace = {}

local FUNCTIONS = { "count", "loss", "values", "weights", "mask" }

-- The files of an objective's functions, and the file that is checked.
local function files_of(objective, plan)
  local found = {}
  if plan.target:find "%.lua$" then found["@" .. plan.target] = plan.target end
  for _, name in ipairs(FUNCTIONS) do
    local info = objective[name] and debug.getinfo(objective[name], "S")
    if info and info.source:sub(1, 1) == "@" then found[info.source] = info.source:sub(2) end
  end
  return found
end

-- Records what a function returned: a count, or a sum and metrics.
local function record_returned(name, line, file, result, more)
  if name == "count" then
    recorder.returned("returned count", line, file, result)
  elseif name == "loss" then
    recorder.returned("returned loss", line, file, result)
    for metric, pair in pairs(more or {}) do
      recorder.returned("metric " .. metric .. " sum", line, file, pair[1])
      recorder.returned("metric " .. metric .. " count", line, file, pair[2])
    end
  end
end

-- Replaces a function of the objective by one that records.
local function recorded(name, f)
  local info = debug.getinfo(f, "S")
  local line, file = info.linedefined, info.source:sub(2)
  local function called(batch, given, ...)
    if name == "loss" then given = recorder.given(line, file, given) end
    return f(batch, given, ...)
  end
  local function finish(...) record_returned(name, line, file, ...) end
  return function(...) return recorder.enter(name, f, called, finish, ...) end
end

local function record_ends(objective)
  for _, name in ipairs(FUNCTIONS) do
    if objective[name] then objective[name] = recorded(name, objective[name]) end
  end
end

local function plain(entries)
  local list = {}
  for i, each in ipairs(entries) do
    list[i] = { key = each.key, place = each.place, name = each.name, call = each.call,
      value = each.value, gradient = each.gradient, differentiable = each.differentiable,
      breaks = each.breaks }
  end
  return list
end

-- One traced pass.
local function pass(measured)
  recorder.begin()
  measured:measure()
  recorder.on = false
  return recorder.entries
end

local function prepare(measured, plan)
  local objective = measured.run.objective
  local batch = measured.run.engine:batch(measured.step:micro_batches()[1])
  local files = files_of(objective, plan)
  record_ends(objective)
  tracing.install(files, batch)
end

-- Whether the gradient of an entry is that of the loss: the entry's result is moved along a random
-- direction.
local function is_right(measured, base, entry)
  local direction = creation.randn(entry.full:shape(), { seed = 7, dtype = "fp64" }):keep()
  local analytic = (entry.full * direction):sum():item()
  local size = math.max(entry.full:norm():item(), 1e-3 * entry.reach)
  local function loss_at(t)
    recorder.change = function(key, result)
      if key == entry.key then return result + direction:on(result) * t end
    end
    local loss = measured:measure().loss
    recorder.change = nil
    return loss
  end
  return differences.one(loss_at, base, analytic, size).verdict ~= "differs"
end

-- The operator that uses a value and loses its gradient: one that leaves the graph, or the first.
local function user_of(entries, k)
  local first
  for j = k + 1, #entries do
    for _, each in ipairs(entries[j].arguments) do
      if rawequal(each, entries[k].result) then
        if entries[j].breaks then return entries[j] end
        first = first or entries[j]
      end
    end
  end
  return first or entries[k]
end

-- The last value whose gradient is wrong, and the operator that uses it.
local function wrong_gradient(measured)
  recorder.keeps = true
  local entries = pass(measured)
  recorder.keeps = nil
  local base = measured.made
  for k = #entries, 1, -1 do
    local entry = entries[k]
    if entry.differentiable and not entry.name:find "_$" then
      entry.full = entry.full or tensor.scope(function() -- it is not in the graph: 0
        return creation.zeros(entry.shape, { dtype = "fp64" })
      end):keep()
      entry.reach = 1
      if not is_right(measured, base, entry) then
        local user = user_of(entries, k)
        return { place = user.place, name = user.name }
      end
    end
  end
  return {}
end

local function write(folder, name, rank, written)
  local path = ("%s/%s.trace%d.json"):format(folder, name, rank)
  system.write(path, system.json_encode(written))
end

-- "FILE:LINE" of the objective's functions.
local function places_of(objective)
  local found = {}
  for _, name in ipairs { "loss", "load_state" } do
    local info = objective[name] and debug.getinfo(objective[name], "S")
    found[name] = info and info.source:sub(2) .. ":" .. info.linedefined
  end
  return found
end

local function procedure(folder, name, plan, packing)
  return function(measured)
    measured:pack(packing)
    local objective = measured.run.objective
    local written = { level = objective.level, functions = places_of(objective) }
    prepare(measured, plan)
    if name == "packed" then written.wrong = wrong_gradient(measured) end
    written.first = plain(pass(measured))
    written.second = plain(pass(measured))
    write(folder, name, measured.run.mesh:rank(), written)
  end
end

-- Traces. If the step fails, what was recorded before is written.
local function start(plan, folder, name)
  local ok, why = pcall(layout.start, plan)
  if ok then return end
  local rank = tonumber(system.environment "RANK" or 0)
  write(folder, name, rank, { failed = plain(recorder.entries) })
  error(why, 0)
end

--- Traces one layout.
---@param folder string
---@param name string
function trace.main(folder, name)
  local plan = system.json_decode(system.read(folder .. "/plan.json"), "plan.json")
  for _, each in ipairs(layouts.all) do
    if each.name == name then
      measured_run.install(plan, layouts.values(layouts.process(each.process)),
        procedure(folder, name, plan, each.packing))
    end
  end
  start(plan, folder, name)
end

return trace
