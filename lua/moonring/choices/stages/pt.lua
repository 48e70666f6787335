--- Pre-training on texts: every token is a target. Everything else is as in stage sft.
local sft = require "moonring.choices.stages.sft"

local pt = {}
for name, value in pairs(sft) do pt[name] = value end
pt.name, pt.reads, pt.about = "pt", "pt", "pre-training on texts: every token is a target"

return pt
