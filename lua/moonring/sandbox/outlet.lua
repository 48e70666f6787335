--- Where print, io.write, io.stdout and io.stderr lead in an embedded runtime: to the log of
-- whoever embeds it, line by line. Nothing is written to the process's own streams.
local system = require "moonring.native.system"

---@class moonring.outlet
local outlet = {}

-- A stream that hands each whole line on.
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

--- Puts the log in the place of print, io.write, io.stdout and io.stderr, and an error in that of
--- os.exit. Once a state.
function outlet.install()
  local output = stream "output"
  io.stdout, io.stderr = output, stream "note"
  function io.write(...) return output:write(...) end
  function io.flush() return output:flush() end
  function io.output() return output end
  function io.read() return nil end -- nobody is there to type
  function print(...)
    local words = {}
    for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
    output:write(table.concat(words, "\t"), "\n")
  end
  function os.exit()
    error("PERMISSION_DENIED: os.exit: an embedded script cannot end the process; return, or "
      .. "raise an error", 0)
  end
end

return outlet
