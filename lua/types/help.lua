---@meta moonring.help

--- The texts of `moonring help`.
---@class moonring.help
local help = {}

--- What a command does, and for train every key; without one, the list of commands.
---@param command? string
---@return string
function help.text(command) end

return help
