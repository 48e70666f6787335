---@meta moonring.metrics

--- Metrics of a step or an evaluation: name -> { sum, count }, added up over micro-batches and ranks. Nothing is divided before the end.
---@class moonring.metrics
local metrics = {}

--- Adds `more` to `total`, in place, and returns it.
---@param total table<string, number[]> name -> { sum, count }
---@param more table name -> { sum, count }, each a number or a tensor of one element; a tensor of the two; or a sum alone, which counts once
---@return table<string, number[]>
function metrics.add(total, more) end

--- The same once `later` is read: nothing waits for a device before that.
---@param later moonring.Readings
---@param total table<string, number[]>
---@param more table
---@return table<string, number[]> total
function metrics.add_later(later, total, more) end

--- The totals over all ranks, the same bits on each. Ranks may hold different names. Collective over all ranks.
---@param mine table<string, number[]>
---@param mesh moonring.Mesh
---@param level "token" | "sequence" each rank holds its own tokens' share, or the ranks of an sp group hold the same, which counts once
---@return table<string, number[]>
function metrics.reduce(mine, mesh, level) end

--- name -> mean, those without a count left out; rewards/margins is the difference of the means where rewards of either kind are counted apart.
---@param total table<string, number[]>
---@return table<string, number>
function metrics.means(total) end

return metrics
