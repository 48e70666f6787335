--- Keys of optimizers that have keys of their own (choices/optimizer_rows.lua). What a row says:
-- keys/init.lua.
local null = require("moonring.native.system").null
local by_layers = "a step is made at its end, by gradients that max_grad_norm clips (0: as "
  .. "LLaMA-Factory, which clips none there); zero_stage: 2 and 3 keep a part of them"

return {
  { title = "BAdam", rows = {
    { "use_badam", "bool", false, "a part of the model learns at a time (arXiv 2404.02827): its "
      .. "blocks in turns, each by the optimizer of `optim`, or a part of each weight "
      .. "(docs/optimizers.md)" },
    { "badam_mode", "string", "layer", "layer: a block at a time; ratio: a part of each weight",
      choices = { "layer", "ratio" }, of = "use_badam" },
    { "badam_start_block", "int", null, "layer: the block that begins, from 0; absent: the first, "
      .. "or the last of descending", least = 0, of = "use_badam" },
    { "badam_switch_mode", "string", "ascending", "layer: the order of the blocks",
      choices = { "ascending", "descending", "random", "fixed" }, of = "use_badam" },
    { "badam_switch_interval", "int", 50, "layer: steps of a turn", least = 1, of = "use_badam" },
    { "badam_update_ratio", "float", 0.05, "ratio: the part of each weight's numbers",
      above = 0, most = 1, of = "use_badam" },
    { "badam_mask_mode", "string", "adjacent", "ratio: which of them: neighbours, or scattered",
      choices = { "adjacent", "scatter" }, of = "use_badam" },
    { "badam_verbose", "int", 0, "what BAdam prints",
      ignored = "a turn of the blocks is one line in the log" },
  } },
  { title = "Optimizers of matrices", rows = {
    { "use_galore", "bool", false, "GaLore (arXiv 2403.03507): AdamW of each linear map in the "
      .. "space of its gradient's first singular vectors" },
    { "galore_rank", "int", 16, "vectors of that space", least = 1, of = "use_galore" },
    { "galore_update_interval", "int", 200, "steps after which it is taken anew", least = 1,
      of = "use_galore" },
    { "galore_scale", "float", 2.0, "what its update is multiplied by", above = 0,
      of = "use_galore" },
    { "galore_target", "list", "all", "parts of the names of the linear maps; all: all but the "
      .. "head", of = "use_galore" },
    { "galore_proj_type", "string", "std", "the side that is projected; std: the smaller one",
      choices = { "std", "reverse_std", "right", "left", "full" }, of = "use_galore" },
    { "galore_layerwise", "bool", false, "steps inside the backward", ignored = by_layers },
    { "use_apollo", "bool", false, "APOLLO (arXiv 2412.05270): gradients of linear maps, scaled by "
      .. "what AdamW does to them in a small space" },
    { "apollo_rank", "int", 16, "the size of that space; 1 with apollo_scale_type: tensor is "
      .. "APOLLO-Mini", least = 1, of = "use_apollo" },
    { "apollo_update_interval", "int", 200, "steps after which it is drawn anew", least = 1,
      of = "use_apollo" },
    { "apollo_scale", "float", 32.0, "updates are multiplied by its root", least = 0,
      of = "use_apollo" },
    { "apollo_target", "list", "all", "as galore_target", of = "use_apollo" },
    { "apollo_proj", "string", "random", "what the space is from: random numbers, or singular "
      .. "vectors", choices = { "svd", "random" }, of = "use_apollo" },
    { "apollo_proj_type", "string", "std", "the side that is projected; std: the smaller one",
      choices = { "std", "right", "left" }, of = "use_apollo" },
    { "apollo_scale_type", "string", "channel", "what has a scale: each row or column, or the "
      .. "whole", choices = { "channel", "tensor" }, of = "use_apollo" },
    { "apollo_layerwise", "bool", false, "steps inside the backward", ignored = by_layers },
    { "apollo_scale_front", "bool", false, "apollo_scale before the limit of the norm's growth "
      .. "(LLaMA-Factory 0.9.5 takes the key and does not use it)", of = "use_apollo" },
    { "use_adam_mini", "bool", false, "Adam-mini (arXiv 2406.16793): AdamW with one second moment "
      .. "for each head, neuron or token" },
    { "use_muon", "bool", false, "Muon with AdamW for what is no matrix; learning_rate is AdamW's "
      .. "(arXiv 2502.16982)" },
    { "adafactor", "bool", false, "Transformers' older name of optim: adafactor" },
  } },
}
