---@meta moonring.flags

--- The options of a script. Scripts use `moonring.flags`, which is `read`, and `moonring.required`.
---@class moonring.flags
---@field required table a default: the key must be given
local flags = {}

--- As `moonring.flags`.
---@param defaults table<string, any>
---@param words? string[] the script's arguments (`arg`) where absent
---@return table<string, any>
function flags.read(defaults, words) end

return flags
