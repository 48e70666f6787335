---@meta moonring.native.errors

--- Makes errors with a status code. The module `moonring.base.errors` raises and reads them.
---@class moonring.native.errors
local errors = {}

--- An error that can be used like its text, "PLACE: CODE: MESSAGE". Errors: INVALID_ARGUMENT for an
--- unknown code.
---@param code string the name of an absl status code, such as "DATA_LOSS"
---@param message string
---@param place? string "FILE:LINE", "FUNCTION" or "FILE:LINE: FUNCTION"
---@param out_of_memory? boolean memory ran out, not a disk or another limit
---@return moonring.Error
function errors.new(code, message, place, out_of_memory) end

--- The code of an error that `new` or a native function made; nil for any other value.
---@param why any
---@return string?
function errors.code(why) end

return errors
