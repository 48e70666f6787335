--- A process of a check: makes the step in its layouts, and writes what it measured to the folder
-- of the check. On several ranks, rank 0 writes.
local capture = require "moonring.commands.check.capture"
local differences = require "moonring.commands.check.differences"
local held = require "moonring.commands.check.held"
local layouts = require "moonring.commands.check.layouts"
local measured_run = require "moonring.commands.check.measured_run"
local of_table = require "moonring.config.of_table"
local run = require "moonring.run"
local safetensors = require "moonring.native.safetensors"
local system = require "moonring.native.system"

---@class moonring.check_layout
local layout = {}

-- The documents of the step that lie on several ranks of an sp group, and all documents.
local function cut_documents(measured)
  local found = { cut = 0, all = 0 }
  local mesh = measured.run.mesh
  for _, micro in ipairs(measured.step:micro_batches()) do
    local batch = measured.run.engine:batch(micro)
    local owner, at = {}, 0
    for rank, rows in ipairs(batch.layout:indices()) do
      for _, row in ipairs(rows:tolist()) do owner[row] = rank end
    end
    for _, length in ipairs(batch:sequence():lengths()) do
      local cut = false
      for i = at, at + length - 1 do cut = cut or owner[i] ~= owner[at] end
      at, found.cut, found.all = at + length, found.cut + (cut and 1 or 0), found.all + 1
    end
  end
  local dp = mesh:sp_rank() == 0 and 1 or 0
  return { cut = mesh:sum(found.cut * dp), all = mesh:sum(found.all * dp) }
end

local function plain(made)
  return { loss = made.loss, metrics = made.metrics, counts = made.counts, state = made.state }
end

-- The largest relative difference of a gradient between two passes, with the parameter's name.
local function repeated(made, again)
  for name, gradient in pairs(made.gradients) do
    if not gradient:equal(again.gradients[name]) then return name end
  end
  return nil
end

local function write(folder, name, result, gradients)
  safetensors.write(folder .. "/" .. name .. ".safetensors", gradients)
  system.write(folder .. "/" .. name .. ".json", system.json_encode(result))
end

-- The finite differences of an objective. Those of one with `surrogate` hold what its Lua functions
-- detach; if they detach nothing, its constants are made in C++, and nothing is compared.
local function differences_of(measured, made)
  if not measured.run.objective.surrogate then return differences.all(measured, made) end
  if held.count() == 0 then return {} end
  return differences.all(measured, made)
end

-- The base also repeats the step. If that gives the same, finite differences have a meaning.
local function measure_base(measured, made, result)
  local objective = measured.run.objective
  if objective.surrogate then
    held.install(function(source) return source == debug.getinfo(objective.loss, "S").source end)
    held.begin "record"
  end
  local again = measured:measure()
  measured.hold_mode = objective.surrogate and "replay" or nil
  result.again = plain(again)
  result.again.parameter = repeated(made, again)
  local same = again.loss == made.loss and not result.again.parameter
  result.differences = same and differences_of(measured, made) or {}
  result.surrogate = objective.surrogate
  if objective.surrogate then
    measured.hold_mode = nil
    held.begin()
  end
end

-- Measures each layout of a process.
local function procedure(folder, process)
  return function(measured)
    for _, each in ipairs(layouts.all) do
      if each.process == process then
        measured:pack(each.packing)
        local made = measured:measure()
        local result = plain(made)
        result.documents = cut_documents(measured)
        if each == layouts.all[1] then measure_base(measured, made, result) end
        if measured.run.mesh:rank() == 0 then write(folder, each.name, result, made.gradients) end
      end
    end
  end
end

-- The loop of scripts/train.lua.
local function train(values)
  local one = run.open(of_table(values))
  for step in one:steps() do one:log(one:update(step)) end
  one:finish()
end

--- Runs what is checked: the script, or the loop of scripts/train.lua. run.open is that of the
--- check (measured_run.lua).
---@param plan moonring.CheckPlan
function layout.start(plan)
  if plan.kind == "script" then
    capture.load(plan.target, plan.words)(unpack(plan.words))
  else
    train(plan.values)
  end
end

--- Runs the layouts of a process.
---@param folder string
---@param process string
function layout.main(folder, process)
  local plan = system.json_decode(system.read(folder .. "/plan.json"), "plan.json")
  measured_run.install(plan, layouts.values(layouts.process(process)), procedure(folder, process))
  layout.start(plan)
end

return layout
