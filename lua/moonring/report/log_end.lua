--- Reads the end of a run's trainer_log.jsonl: where the run stands. Its cost does not depend on
-- the log's length.
local log_line = require "moonring.report.log_line"
local system = require "moonring.native.system"
local watch_native = require "moonring.native.watch"

---@class moonring.log_end
local log_end = {}

---@class moonring.LogEnd
---@field step? integer
---@field total_steps? integer
---@field finished? boolean whether the line after the last step is there

local TAIL = 2 ^ 16 -- bytes; a line is shorter

-- The complete lines at the end of a file, the last one first.
local function last_lines(path)
  local state = watch_native.stat(path)
  local from = math.max(0, (state and state.size or 0) - TAIL)
  local text = state and system.read_part(path, from, TAIL) or ""
  local lines = {}
  for line in text:gmatch "([^\n]*)\n" do table.insert(lines, 1, line) end
  if from > 0 then lines[#lines] = nil end -- its beginning is missing
  return lines
end

--- Where the run stands by its log; {} without a log.
---@param path string
---@return moonring.LogEnd
function log_end.read(path)
  local found = {}
  for _, line in ipairs(last_lines(path)) do
    local ok, values = pcall(system.json_decode, line, path)
    if ok and type(values) == "table" and values.current_steps then
      found.step = found.step or values.current_steps
      found.total_steps = found.total_steps or values.total_steps
      if not log_line.is_evaluation(values) then
        found.finished = log_line.is_end(values)
        return found
      end
    end
  end
  return found
end

return log_end
