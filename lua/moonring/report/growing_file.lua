--- Reads a file of JSON lines that may still be growing: each call returns the new lines. If the
-- last line has no line break, it is incomplete (still being written, or of a killed run) and is
-- read later.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.growing_file
local growing_file = {}

---@class moonring.GrowingFile
---@field path string
---@field offset integer bytes read so far
---@field lines integer lines read so far
---@field head string the first bytes of the file
---@field broken? boolean the last call ended with an error
local GrowingFile = {}
GrowingFile.__index = GrowingFile

local PART, LONGEST, HEAD = 2 ^ 20, 2 ^ 26, 256

--- Opens a file; nothing is read yet. The file need not exist yet.
---@param path string
---@return moonring.GrowingFile
function growing_file.open(path)
  return setmetatable({ path = path, offset = 0, lines = 0, head = "" }, GrowingFile)
end

--- Decodes a line. Errors: INVALID_ARGUMENT, with file, line and column, for invalid JSON.
---@param line string
---@param path string
---@param number integer line number, from 1
---@return any
function growing_file.decode(line, path, number)
  local ok, value = pcall(system.json_decode, line, "line")
  if ok then return value end
  errors.fail(path, ":", number, ":", (errors.words(value):gsub("^line:1:", "")))
end

-- Whether another run has rewritten the file: then its first bytes, or the last byte read, differ.
local function is_another(self)
  return system.read_part(self.path, 0, #self.head) ~= self.head
    or system.read_part(self.path, self.offset - 1, 1) ~= "\n"
end

-- The complete lines after the offset, as one string; "" if there is none.
local function new_text(self)
  local size = PART
  while true do
    local text = system.read_part(self.path, self.offset, size)
    local stop = text:match "^.*()\n" -- anchored: otherwise quadratic
    if stop then return text:sub(1, stop) end
    if #text < size then return "" end
    size = 2 * size
    if size > LONGEST then
      errors.fail(self.path, ":", self.lines + 1, ": a line of more than ", LONGEST / 4 ^ 10,
        " MiB")
    end
  end
end

--- Calls `take` with the value of each new line. If the file was rewritten, calls `restart` and
--- begins again with the first line. Errors: INVALID_ARGUMENT, with file and line, for a line of
--- invalid JSON.
---@param take fun(value: any)
---@param restart fun() called before starting again with the first line
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
