---@meta moonring.inspect

--- What `moonring inspect` tells of a checkpoint.
---@class moonring.inspect
local inspect = {}

---@class moonring.RecipeMemory
---@field name string "full, fp32"
---@field states number bytes of weights, gradients and AdamW's moments
---@field activations number bytes that a stream takes, blocks recomputed
---@field peak number bytes at most: gradients come while activations go

--- What each recipe of training takes on one rank, of a stream of `tokens` tokens.
---@param checkpoint moonring.Checkpoint
---@param tokens integer
---@return moonring.RecipeMemory[]
function inspect.memory(checkpoint, tokens) end

--- Family, sizes, parameters by part, tokenizer, template and memory, as lines.
---@param checkpoint moonring.Checkpoint
---@param tokens integer
---@return string
function inspect.text(checkpoint, tokens) end

return inspect
