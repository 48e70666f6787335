---@meta moonring.published

--- Published longest sequences: numbers, settings and where they stand.
---@class moonring.published
---@field models table<string, moonring.ModelShape>
---@field tables moonring.PublishedTable[]
local published = {}

---@class moonring.PublishedRow
---@field model string
---@field ranks integer
---@field sp integer
---@field documents integer of an example
---@field longest number tokens of each
---@field logits "whole" | "chunked"
---@field mlp "whole" | "tiled"
---@field activation_offload? "cpu"
---@field offload_weights? "cpu"

---@class moonring.PublishedTable
---@field title string
---@field source string
---@field memory number bytes of a GPU
---@field strategy string
---@field sum_bytes? integer of what attention sums up
---@field reference? boolean whether there is a reference model
---@field rows moonring.PublishedRow[]

return published
