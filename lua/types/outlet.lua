---@meta moonring.outlet

--- Where what scripts print goes in an embedded runtime (lua/embed.h): to the log callback, line by line.
---@class moonring.outlet
local outlet = {}

--- Puts the log in the place of print, io.write, io.stdout and io.stderr, and an error in that of os.exit. Once a state.
function outlet.install() end

return outlet
