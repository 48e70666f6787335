---@meta moonring.sandbox

--- What `moonring --sandbox SCRIPT.lua` gives a script for globals: Lua's pure libraries and Moonring. There is no io, debug, ffi, jit, package, no
--- os but the clock, no bytecode; moonring.system lacks files, the environment and launch. Moonring's own functions still read and write
--- where the script says (models, data sets, logs), below the roots (--sandbox-root; comm/confinement.h). xpcall calls its handler after the stack is unwound,
--- collectgarbage collects and counts alone, getmetatable answers for tables alone.
---@class moonring.sandbox
local sandbox = {}

--- Takes from the host's own globals what leads to the machine. Once a state, before any script.
function sandbox.confine() end

--- A new table of globals.
---@return table
function sandbox.globals() end

return sandbox
