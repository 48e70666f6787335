--- moonring scaled_run.lua CONFIG.yaml|key=value...: trains as `train` does, with the loss scale of
-- fp16 whatever the precision.
local moonring = require "moonring"
moonring.loss_scale.of = function() return moonring.loss_scale.new() end
dofile(moonring.system.script_path "train")
