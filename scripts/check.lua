--- moonring check OBJECTIVE.lua | CONFIG.yaml [key=value...]: checks an objective in every layout.
-- Makes one step in fp64 at sp 1, sp 2 and dp 2, in micro-batches of one example and all packed,
-- and compares losses, gradients, metrics and counts; compares the gradient with finite differences
-- of the loss. Names the line to suspect. Exit code 1 if anything differs.
--   OBJECTIVE.lua  returns an objective (moonring.Objective), or a function of configuration and
--                  model that does. Model and documents are synthetic: those of stage sft at level
--                  token, pairs at level sequence. stage=NAME: others; model_name_or_path and
--                  dataset: your own
--   CONFIG.yaml    the stage's objective, or the file that the key objective names
--   SCRIPT.lua     a training script, also its name (own_loss), with the script's keys
-- A model of more than 2 million weights is replaced by a small one of its architecture.
local check = require "moonring.commands.check"
check.main(arg)
