---@meta moonring.agreement

--- Whether all ranks of a run were given one configuration.
---@class moonring.agreement
local agreement = {}

--- Refuses (INVALID_ARGUMENT, naming keys, values and ranks) ranks that were given other values of keys; but for where things lie and what a machine has. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
function agreement.check(c, mesh) end

return agreement
