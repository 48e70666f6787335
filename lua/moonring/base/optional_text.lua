--- Reads files that may be absent or unreadable, as those of the kernel are under --sandbox.
local system = require "moonring.native.system"

---@class moonring.optional_text
local optional_text = {}

--- The text of a file; "" if it cannot be read.
---@param path string
---@return string
function optional_text.read(path)
  local ok, text = pcall(system.read, path)
  return ok and text or ""
end

return optional_text
