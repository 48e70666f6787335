--- Output for people on stdout and stderr. Such lines may quote a file, a hub or a model, so
-- control characters are escaped ("\x1b"): external text must not change the window's title, write
-- to the clipboard or hide a line. lua/host/launcher.cc escapes the host's errors and the lines of
-- ranks, and trainer/reports/progress.cc a run's progress. The output of a user's script is escaped
-- only under --sandbox.
local system = require "moonring.native.system"

---@class moonring.terminal
local terminal = {}

--- print, with control characters escaped.
---@param ... any
function terminal.print(...)
  local words = {}
  for i = 1, select("#", ...) do words[i] = system.visible(tostring((select(i, ...)))) end
  print(table.concat(words, "\t"))
end

--- Writes text to stdout, and flushes it.
---@param ... string | number
function terminal.write(...)
  io.write(system.visible(table.concat { ... }))
  io.flush()
end

--- Writes text to stderr.
---@param ... string | number
function terminal.note(...) io.stderr:write(system.visible(table.concat { ... })) end

--- Clears the current line of the terminal and writes a text, which may be empty. This is the only
--- function in Lua that writes terminal control codes.
---@param ... string | number
function terminal.redraw(...)
  io.stderr:write("\r\27[K", system.visible(table.concat { ... }))
  io.stderr:flush()
end

return terminal
