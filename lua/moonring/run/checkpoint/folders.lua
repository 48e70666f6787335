--- The folders checkpoint-STEP of an output_dir, as one finds them.
local system = require "moonring.native.system"

---@class moonring.checkpoint_folders
local checkpoint_folders = {}

--- The steps whose checkpoint-STEP a folder has, whole or broken.
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

--- Whether a step's checkpoint in a folder has what a run needs to go on from it. No byte is read.
---@param dir string
---@param step integer
---@return boolean
function checkpoint_folders.resumable(dir, step)
  local folder = dir .. "/checkpoint-" .. step
  return system.exists(folder .. "/manifest.json")
    and system.exists(folder .. "/training_state.json")
end

--- Removes what a run that died as it saved, or as it removed a checkpoint, left in a folder.
---@param dir string
function checkpoint_folders.sweep(dir)
  for _, name in ipairs(system.list(dir)) do
    local died = name:find "^checkpoint%-%d+%.partial$" or name:find "^checkpoint%-%d+%.removed$"
    if died then system.remove(dir .. "/" .. name) end
  end
end

return checkpoint_folders
