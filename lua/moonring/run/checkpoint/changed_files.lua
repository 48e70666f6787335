--- Detects model files that change during a run. Frozen weights are memory-mapped from their files,
-- so a program that writes into such a file changes the run's results.
local native = require "moonring.native.model"

---@class moonring.changed_files
local changed_files = {}

--- Logs a warning for each model file that has changed since the last call. Collective over all
--- ranks.
---@param run moonring.Run
function changed_files.tell(run)
  local text = table.concat(native.take_changed_files(), "\n")
  local said = {}
  for _, each in ipairs(run.mesh:gather(text)) do
    for line in each:gmatch "[^\n]+" do
      if not said[line] then run.log:say("warning: " .. line) end
      said[line] = true
    end
  end
end

return changed_files
