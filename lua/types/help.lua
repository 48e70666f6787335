---@meta moonring.help

--- The texts of `moonring help`.
---@class moonring.help
local help = {}

--- What a command does, and for train every key, or all there is to say of one; without a command,
--- the list of them. Errors: INVALID_ARGUMENT, with the nearest name.
---@param command? string
---@param key? string of train
---@return string
function help.text(command, key) end

return help
