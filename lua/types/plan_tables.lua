---@meta moonring.plan_tables

--- Published longest sequences beside what our formulas say.
---@class moonring.plan_tables
local tables = {}

---@class moonring.TableRow
---@field theirs number tokens of an example, as published
---@field foretold number by our formulas for their settings
---@field ours number Moonring's, on the same GPUs, by the strategy that goes furthest
---@field offloading number the same with activation_offload
---@field strategy string by which
---@field host number bytes of a machine's memory that this takes

--- A row in numbers.
---@param of moonring.PublishedTable
---@param row moonring.PublishedRow
---@return moonring.TableRow
function tables.row(of, row) end

--- Every table, as text.
---@return string
function tables.text() end

return tables
