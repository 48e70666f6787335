--- What of an earlier part of a run counts in its files of JSON lines: those up to the step that it
-- goes on from.
local system = require "moonring.native.system"

---@class moonring.lines_before
local lines_before = {}

--- The lines of a file whose `step` is at most the given one, with their line breaks; "" where
--- there is no file, and before the first step. A last line that is not whole is none.
---@param path string
---@param step integer
---@param counts? fun(record: table): boolean whether a line counts at all; each does where absent
---@return string
function lines_before.text(path, step, counts)
  if step == 0 or not system.exists(path) then return "" end
  local kept = {}
  for line in system.read(path):gmatch "[^\n]*\n" do
    local ok, record = pcall(system.json_decode, line)
    if ok and type(record) == "table" and (record.step or math.huge) <= step
      and (not counts or counts(record)) then
      kept[#kept + 1] = line
    end
  end
  return table.concat(kept)
end

return lines_before
