--- The layouts of a check: the same step on other ranks and in other micro-batches. Each runs in
-- processes of its own, so that one that fails or hangs leaves the others to be reported.
local safetensors = require "moonring.native.safetensors"
local shell = require "moonring.base.shell"
local system = require "moonring.native.system"
local watch_native = require "moonring.native.watch"

---@class moonring.check_layouts
---@field processes moonring.CheckProcess[]
--- `all`: all layouts. The first is the base, with which the others are compared.
---@field all moonring.CheckLayout[]
local layouts = {}

---@class moonring.CheckLayout
---@field name string
---@field title string
---@field process string the name of its process
---@field packing? "each" | "packed" how the step is packed; absent: by micro_batch_tokens

--- Ranks that make the step in one layout or several.
---@class moonring.CheckProcess
---@field name string
---@field ranks integer
---@field sp integer

layouts.processes = { { name = "sp1", ranks = 1, sp = 1 }, { name = "dp2", ranks = 2, sp = 1 },
  { name = "sp2", ranks = 2, sp = 2 } }

layouts.all = {
  { name = "sp1", title = "sp 1", process = "sp1" },
  { name = "each", title = "sp 1, one example each", process = "sp1", packing = "each" },
  { name = "packed", title = "sp 1, all packed", process = "sp1", packing = "packed" },
  { name = "dp2", title = "dp 2", process = "dp2" },
  { name = "sp2each", title = "sp 2, one example each", process = "sp2", packing = "each" },
  { name = "sp2packed", title = "sp 2, all packed", process = "sp2", packing = "packed" },
}

local MICRO_BATCH = 1000 -- tokens: two or three documents

--- A process by its name.
---@param name string
---@return moonring.CheckProcess
function layouts.process(name)
  for _, process in ipairs(layouts.processes) do
    if process.name == name then return process end
  end
end

--- The keys and values of a process.
---@param process moonring.CheckProcess
---@return table<string, any>
function layouts.values(process)
  return { sequence_parallel_size = process.sp, micro_batch_tokens = MICRO_BATCH,
    sequence_parallel_mode = process.sp > 1 and "zigzag-ring" or nil }
end

---@class moonring.LayoutResult
---@field result? table what layout.lua wrote
---@field gradients? table<string, moonring.Tensor>
---@field failure? string the message if it failed
---@field output string

-- The message of a failed command.
local function failure(output)
  local said
  for line in output:gmatch "[^\n]+" do
    said = not said and line:match "moonring: (.*)$" or said
  end
  return said or output:match "([^\n]+)\n*$" or "it printed nothing"
end

--- Starts the ranks of a process and waits for their end. Returns what they printed.
---@param folder string with plan.json
---@param process moonring.CheckProcess
---@param code string what the ranks run
---@param ... string further arguments of it
---@return string
function layouts.start(folder, process, code, ...)
  local words = { watch_native.program(), "-n", tostring(process.ranks), "--device", "cpu", "-e",
    code, folder, ... }
  local pipe = io.popen("OMP_NUM_THREADS=1 " .. shell.line(words) .. " 2>&1 </dev/null")
  local output = pipe:read "*a"
  pipe:close()
  return output
end

local function read(folder, layout, output)
  local stem = folder .. "/" .. layout.name
  if not system.exists(stem .. ".json") then
    return { failure = failure(output), output = output }
  end
  return { output = output, result = system.json_decode(system.read(stem .. ".json"), stem),
    gradients = safetensors.read(stem .. ".safetensors") }
end

local CODE = "require('moonring.commands.check.layout').main(...)"

--- Runs all layouts. If the base fails, the other processes are not started.
---@param folder string with plan.json
---@return moonring.LayoutResult[] as layouts.all
function layouts.run(folder)
  local results, outputs = {}, {}
  for i, layout in ipairs(layouts.all) do
    local name = layout.process
    outputs[name] = outputs[name] or layouts.start(folder, layouts.process(name), CODE, name)
    results[i] = read(folder, layout, outputs[name])
    if i == 1 and results[1].failure then break end
  end
  return results
end

return layouts
