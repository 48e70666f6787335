---@meta moonring.sandbox

--- What `moonring --sandbox SCRIPT.lua` gives a script for globals: Lua's pure libraries and Moonring. There is no io, debug, ffi, jit, package, no
--- os but the clock, no bytecode; moonring.system lacks files, the environment and launch. Moonring's own functions still read and write
--- where the script says (models, data sets, logs).
---@class moonring.sandbox
local sandbox = {}

--- A new table of globals.
---@return table
function sandbox.globals() end

return sandbox
