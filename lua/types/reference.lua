---@meta moonring.reference

--- The reference model of DPO and KTO: log-probs per document, live, or computed once before training and kept.
---@class moonring.reference
local reference = {}

---@class moonring.Reference
---@field log_probs fun(self: moonring.Reference, batch: moonring.Batch): moonring.Tensor fp64 [documents], outside any graph

--- A model that is held in memory.
---@param model moonring.Model
---@return moonring.Reference
function reference.live(model) end

--- Numbers that are there.
---@param log_probs number[][] by example: of its documents
---@return moonring.Reference
function reference.kept(log_probs) end

---@class moonring.PrecomputeOptions
---@field path string the file
---@field key table<string, string | number> what the numbers depend on
---@field overwrite boolean compute again whatever is there
---@field make_model fun(): moonring.Model called where they must be computed
---@field dataset moonring.Dataset
---@field attention moonring.Attention
---@field mesh moonring.Mesh
---@field make_steps fun(): moonring.Steps one epoch over it
---@field documents integer of an example
---@field lockstep? boolean whether ranks share the model's weights

--- Log-probs from a file, or computed and written to it. Collective over all ranks.
--- Errors: INVALID_ARGUMENT where the file was made from something else, saying what differs.
---@param options moonring.PrecomputeOptions
---@return moonring.Reference
function reference.precomputed(options) end

return reference
