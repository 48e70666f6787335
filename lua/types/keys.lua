---@meta moonring.keys

--- The keys of a training configuration, under headings: LLaMA-Factory's names and Moonring's own. `moonring help train` prints them.
---@class moonring.keys
---@field [integer] { title: string, rows: moonring.KeyRow[] }
---@field unsupported string[] keys of LLaMA-Factory that are known and refused by name
local keys = {}

return keys
