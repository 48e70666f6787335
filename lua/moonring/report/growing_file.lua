--- A file of JSON lines that may be written to while it is read: each call gives the lines that are
-- new. A last line without its line break is left for later: it is not whole yet, or a run that was
-- killed left it so.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.growing_file
local growing_file = {}

---@class moonring.GrowingFile
---@field path string
---@field offset integer bytes that were taken
---@field lines integer how many these are
---@field head string the first of these bytes
---@field broken? boolean the last call ended in the middle
local GrowingFile = {}
GrowingFile.__index = GrowingFile

local PART, LONGEST, HEAD = 2 ^ 20, 2 ^ 26, 256

--- Nothing of it was read yet; it need not be there.
---@param path string
---@return moonring.GrowingFile
function growing_file.open(path)
  return setmetatable({ path = path, offset = 0, lines = 0, head = "" }, GrowingFile)
end

--- The value of a line. Errors: INVALID_ARGUMENT, with file, line and column, for what is no JSON.
---@param line string
---@param path string
---@param number integer of the line, from 1
---@return any
function growing_file.decode(line, path, number)
  local ok, value = pcall(system.json_decode, line, "line")
  if ok then return value end
  errors.fail(path, ":", number, ":", (errors.words(value):gsub("^line:1:", "")))
end

-- Whether what was read is no longer what the file begins with: another run writes there.
local function is_another(self)
  return system.read_part(self.path, 0, #self.head) ~= self.head
    or system.read_part(self.path, self.offset - 1, 1) ~= "\n"
end

-- The whole lines from the offset on, as one text; "" where there is none.
local function new_text(self)
  local size = PART
  while true do
    local text = system.read_part(self.path, self.offset, size)
    local stop = text:match "^.*()\n" -- anchored: else quadratic
    if stop then return text:sub(1, stop) end
    if #text < size then return "" end
    size = 2 * size
    if size > LONGEST then
      errors.fail(self.path, ":", self.lines + 1, ": a line of more than ", LONGEST / 4 ^ 10,
        " MiB")
    end
  end
end

--- Hands each new line's value to `take`; begins with the first line again where the file was begun
--- anew. Errors: INVALID_ARGUMENT, with file and line, for a line that is no JSON.
---@param take fun(value: any)
---@param restart fun() is called before the first line comes again
---@return boolean whether there was anything new
function GrowingFile:read(take, restart)
  if not system.exists(self.path) then return false end
  local changed = self.broken or self.offset > 0 and is_another(self) or false
  if changed then
    self.offset, self.lines, self.head = 0, 0, ""
    restart()
  end
  self.broken = true
  while true do
    local text = new_text(self)
    if text == "" then
      self.broken = nil
      return changed
    end
    changed = true
    for line in text:gmatch "([^\n]*)\n" do
      self.lines = self.lines + 1
      if line ~= "" then
        take(growing_file.decode(line, self.path, self.lines))
      end
    end
    self.head = (self.head .. text):sub(1, HEAD)
    self.offset = self.offset + #text
  end
end

return growing_file
