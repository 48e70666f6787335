---@meta moonring.foreign_keys

--- The last sections of moonring.keys: keys of LLaMA-Factory and of the Hugging Face Trainer that are refused by name, or accepted and change nothing.
---@class moonring.foreign_keys
---@field [integer] { title: string, rows: moonring.KeyRow[] }
local foreign = {}

return foreign
