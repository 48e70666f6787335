--- Parses ranges of steps in keys: "4", or "3-5", which includes both ends.
local errors = require "moonring.base.errors"

---@class moonring.step_range
local step_range = {}

--- The first and the last step of the key `trace`; nil if the key is absent. Errors:
--- INVALID_ARGUMENT.
---@param c moonring.Configuration
---@return integer? first
---@return integer? last
function step_range.of_trace(c)
  if not c.trace then return nil end
  local first, last = c.trace:match "^%s*(%d+)%s*%-%s*(%d+)%s*$"
  first = first or c.trace:match "^%s*(%d+)%s*$"
  first, last = tonumber(first), tonumber(last or first)
  if not first or first < 1 or last < first then
    errors.fail("trace: expected a step (4) or steps (3-5), from 1 on, got '", c.trace, "'")
  end
  return first, last
end

return step_range
