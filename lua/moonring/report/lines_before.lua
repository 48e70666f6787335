--- Selects the lines of a JSON lines file that stay when a run resumes: those up to the step from
-- which it resumes.
local system = require "moonring.native.system"

---@class moonring.lines_before
local lines_before = {}

--- The lines of a file whose `step` is at most the given one, including line breaks. "" if the file
--- is absent, or if the given step is 0. An incomplete last line is dropped.
---@param path string
---@param step integer
---@param counts? fun(record: table): boolean whether to keep a line; default: all
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
