--- Pre-training on texts: all tokens are trained on. Otherwise as stage sft.
local sft = require "moonring.choices.stages.sft"

local pt = {}
for name, value in pairs(sft) do pt[name] = value end
pt.name, pt.reads = "pt", "pt"

return pt
