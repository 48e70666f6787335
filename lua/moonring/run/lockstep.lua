--- Makes the number of micro-batches equal on all ranks. Ranks that share weights (ZeRO-3) gather
-- them together, so a rank with fewer micro-batches runs empty ones at the end.
local comm = require "moonring.native.comm"
local tensor = require "moonring.native.tensor"

---@class moonring.lockstep
---@field nothing moonring.MicroBatch without documents
local lockstep = {}

local function none() return {} end

lockstep.nothing = {
  sequence = function() return comm.sequence { documents = {} } end,
  labels = function() return tensor.tensor({}, "int64") end,
  examples = none, places = none, document_counts = none, desirable = none,
}

--- Pads a list of micro-batches with empty ones to the length of the longest list of all ranks.
--- Collective over all ranks.
---@param micros moonring.MicroBatch[]
---@param mesh moonring.Mesh
---@return moonring.MicroBatch[]
function lockstep.pad(micros, mesh)
  local all = { unpack(micros) }
  for i = #micros + 1, mesh:max(#micros) do all[i] = lockstep.nothing end
  return all
end

return lockstep
