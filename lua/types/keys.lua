---@meta moonring.keys

--- The keys of a training configuration, under headings: LLaMA-Factory's names and Moonring's own. `moonring help train` prints them.
---@class moonring.keys
---@field [integer] { title: string, rows: moonring.KeyRow[] }
---@field aliases table<string, string> other names of the same keys
local keys = {}

return keys
