---@meta moonring.plan_text

--- What `moonring plan` says.
---@class moonring.plan_text
local text = {}

--- A prediction by part, as lines.
---@param found moonring.MemoryPrediction
---@param indent string
---@return string[]
function text.parts(found, indent) end

---@class moonring.PlanAbout
---@field name string of the model
---@field memory number bytes a rank
---@field length integer tokens of an example
---@field links { near: number, far: number, named: string }
---@field all boolean every strategy in the table
---@field facts_with fun(changes: table): moonring.MemoryFacts

--- The whole text.
---@param f moonring.MemoryFacts
---@param about moonring.PlanAbout
---@return string
function text.whole(f, about) end

return text
