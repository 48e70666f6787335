--- Keys of optimizers that have a key of their own instead of a value of `optim`
-- (choices/optimizer_rows.lua). Fields of a row: keys/init.lua.
local null = require("moonring.native.system").null

return {
  { title = "BAdam", rows = {
    { "use_badam", "bool", false, "train one section of the model at a time (arXiv 2404.02827): "
      .. "its blocks in turn, each by the optimizer of `optim`, or a fraction of each weight "
      .. "(docs/optimizers.md)" },
    { "badam_mode", "string", "layer", "layer: one block at a time; ratio: a fraction of each "
      .. "weight",
      choices = { "layer", "ratio" }, of = "use_badam" },
    { "badam_start_block", "int", null, "layer: the first block, from 0; absent: 0, or the last "
      .. "one with descending", least = 0, of = "use_badam" },
    { "badam_switch_mode", "string", "ascending", "layer: the order of the blocks",
      choices = { "ascending", "descending", "random", "fixed" }, of = "use_badam" },
    { "badam_switch_interval", "int", 50, "layer: steps before the next block",
      least = 1, of = "use_badam" },
    { "badam_update_ratio", "float", 0.05, "ratio: fraction of each weight's numbers",
      above = 0, most = 1, of = "use_badam" },
    { "badam_mask_mode", "string", "adjacent", "ratio: selection of the numbers: adjacent or "
      .. "scattered",
      choices = { "adjacent", "scatter" }, of = "use_badam" },
  } },
  { title = "Matrix optimizers", rows = {
    { "use_galore", "bool", false, "GaLore (arXiv 2403.03507): AdamW for each linear module in the "
      .. "subspace of its gradient's leading singular vectors" },
    { "galore_rank", "int", 16, "dimension of the subspace", least = 1, of = "use_galore" },
    { "galore_update_interval", "int", 200, "steps between recomputations of the subspace",
      least = 1,
      of = "use_galore" },
    { "galore_scale", "float", 2.0, "factor on the update", above = 0,
      of = "use_galore" },
    { "galore_target", "list", "all", "substrings of the names of linear modules; all: all but the "
      .. "head", of = "use_galore" },
    { "galore_proj_type", "string", "std", "the side that is projected; std: the smaller one",
      choices = { "std", "reverse_std", "right", "left", "full" }, of = "use_galore" },
    { "use_apollo", "bool", false, "APOLLO (arXiv 2412.05270): gradients of linear modules, scaled "
      .. "as AdamW scales them in a low-rank space" },
    { "apollo_rank", "int", 16, "rank of that space; 1 with apollo_scale_type: tensor is "
      .. "APOLLO-Mini", least = 1, of = "use_apollo" },
    { "apollo_update_interval", "int", 200, "steps between new projections", least = 1,
      of = "use_apollo" },
    { "apollo_scale", "float", 32.0, "updates are multiplied by its square root", least = 0,
      of = "use_apollo" },
    { "apollo_target", "list", "all", "as galore_target", of = "use_apollo" },
    { "apollo_proj", "string", "random", "origin of the projection: random numbers, or singular "
      .. "vectors", choices = { "svd", "random" }, of = "use_apollo" },
    { "apollo_proj_type", "string", "std", "the side that is projected; std: the smaller one",
      choices = { "std", "right", "left" }, of = "use_apollo" },
    { "apollo_scale_type", "string", "channel", "granularity of the scale: each row or column, or "
      .. "the whole matrix", choices = { "channel", "tensor" }, of = "use_apollo" },
    { "apollo_scale_front", "bool", false, "apply apollo_scale before the limit on the norm's "
      .. "growth (LLaMA-Factory 0.9.5 accepts the key but does not use it)", of = "use_apollo" },
    { "use_adam_mini", "bool", false, "Adam-mini (arXiv 2406.16793): AdamW with one second moment "
      .. "per head, neuron or token" },
    { "use_muon", "bool", false, "Muon for matrices, AdamW for other weights; learning_rate is "
      .. "that of AdamW (arXiv 2502.16982)" },
    { "adafactor", "bool", false, "Transformers' older name of optim: adafactor" },
  } },
}
