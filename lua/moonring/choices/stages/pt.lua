--- Pre-training: texts, every token of which is learnt. All but the rows as in stage sft.
local sft = require "moonring.choices.stages.sft"

local pt = {}
for name, value in pairs(sft) do pt[name] = value end
pt.name, pt.reads = "pt", "pt"

return pt
