--- Tells the kinds of lines of trainer_log.jsonl apart.

---@class moonring.log_line
local log_line = {}

--- Whether a line describes an evaluation. Its tokens per second are not those of a training step,
--- and it may come after the last step.
---@param line table<string, any>
---@return boolean
function log_line.is_evaluation(line)
  if line.lr ~= nil then return false end
  for name in pairs(line) do
    if name:find "^eval_" then return true end
  end
  return false
end

--- Whether a line ends the log: it has no tokens.
---@param line table<string, any>
---@return boolean
function log_line.is_end(line) return line.tokens == nil end

return log_line
