--- What Moonring itself prints for people: lines on stdout and stderr that may quote a file, a hub
-- or a model. Control characters in them are spelt out ("\x1b"), so that text of others cannot
-- retitle the window, write the clipboard or hide a line. The errors of the host and the lines of
-- ranks are spelt so where they are written (lua/launcher.cc), a run's progress in
-- trainer/progress.cc. A user's own script prints as it is, except
-- under --sandbox.
local system = require "moonring.native.system"

---@class moonring.terminal
local terminal = {}

--- As Lua's print.
---@param ... any
function terminal.print(...)
  local words = {}
  for i = 1, select("#", ...) do words[i] = system.visible(tostring((select(i, ...)))) end
  print(table.concat(words, "\t"))
end

--- A piece of text on stdout, at once.
---@param ... string | number
function terminal.write(...)
  io.write(system.visible(table.concat { ... }))
  io.flush()
end

--- A piece of text on stderr.
---@param ... string | number
function terminal.note(...) io.stderr:write(system.visible(table.concat { ... })) end

--- Begins the last line of a terminal anew, with a text or nothing: the one place of Lua's where
--- codes of a terminal are written.
---@param ... string | number
function terminal.redraw(...)
  io.stderr:write("\r\27[K", system.visible(table.concat { ... }))
  io.stderr:flush()
end

return terminal
