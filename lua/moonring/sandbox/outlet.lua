--- Output of an embedded runtime: print, io.write, io.stdout and io.stderr write to the log of the
-- embedding program, line by line, and not to the process's streams.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.outlet
local outlet = {}

-- Makes a stream that sends each complete line to the log.
local function stream(kind)
  local begun = ""
  local lines = {}
  function lines:write(...)
    for i = 1, select("#", ...) do begun = begun .. tostring((select(i, ...))) end
    for line in begun:gmatch "([^\n]*)\n" do system.say(kind, line) end
    begun = begun:match "([^\n]*)$"
    return self
  end
  function lines:flush()
    if begun ~= "" then system.say(kind, begun) end
    begun = ""
    return self
  end
  lines.close, lines.setvbuf = lines.flush, lines.flush
  return lines
end

--- Redirects print, io.write, io.stdout and io.stderr to the log, and makes os.exit an error.
--- Called once per state.
function outlet.install()
  local output = stream "output"
  io.stdout, io.stderr = output, stream "note"
  function io.write(...) return output:write(...) end
  function io.flush() return output:flush() end
  function io.output() return output end
  function io.read() return nil end -- there is no input
  function print(...)
    local words = {}
    for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
    output:write(table.concat(words, "\t"), "\n")
  end
  function os.exit()
    errors.raise("PERMISSION_DENIED", "os.exit: an embedded script cannot end the process; ",
      "return, or raise an error")
  end
end

return outlet
