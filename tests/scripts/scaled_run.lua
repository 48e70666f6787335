--- moonring scaled_run.lua CONFIG.yaml|key=value...: trains as `train` does, with the loss scale of
-- fp16 in any precision.
local moonring = require "moonring"
local loss_scale = require "moonring.run.loss_scale"
loss_scale.of = function() return loss_scale.new() end
dofile(moonring.system.script_path "train")
