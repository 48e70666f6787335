--- The folders checkpoint-STEP of an output_dir.
local system = require "moonring.native.system"

---@class moonring.checkpoint_folders
local checkpoint_folders = {}

--- The steps of all folders checkpoint-STEP, complete or broken.
---@param dir string
---@return integer[] the newest first
function checkpoint_folders.list(dir)
  local steps = {}
  for _, name in ipairs(system.list(dir)) do
    local step = name:match "^checkpoint%-(%d+)$"
    if step and system.is_folder(dir .. "/" .. name) then steps[#steps + 1] = tonumber(step) end
  end
  table.sort(steps, function(a, b) return a > b end)
  return steps
end

--- Whether a checkpoint has the files from which a run can resume. Does not read their contents.
---@param dir string
---@param step integer
---@return boolean
function checkpoint_folders.resumable(dir, step)
  local folder = dir .. "/checkpoint-" .. step
  return system.exists(folder .. "/manifest.json")
    and system.exists(folder .. "/training_state.json")
end

--- Removes partial folders left by a run that was killed while it saved or removed a checkpoint.
---@param dir string
function checkpoint_folders.sweep(dir)
  for _, name in ipairs(system.list(dir)) do
    local died = name:find "^checkpoint%-%d+%.partial$" or name:find "^checkpoint%-%d+%.removed$"
    if died then system.remove(dir .. "/" .. name) end
  end
end

return checkpoint_folders
