--- Files of models that change under a run. A weight that is not trained is read from its file's
-- pages as they are now: a file that somebody writes into changes the run's numbers.
local native = require "moonring.native.model"

---@class moonring.changed_files
local changed_files = {}

--- Says which files of models have changed since the last call. Collective over all ranks.
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
