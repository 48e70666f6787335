--- Keys of optimizers that have keys of their own (run/optimizer_rows.lua). What a row says:
-- keys/init.lua.
local null = require("moonring.native.system").null

return {
  { title = "BAdam", rows = {
    { "use_badam", "bool", false, "a part of the model learns at a time (arXiv 2404.02827): its "
      .. "blocks in turns, each by the optimizer of `optim`, or a part of each weight "
      .. "(docs/optimizers.md)" },
    { "badam_mode", "string", "layer", "layer: a block at a time; ratio: a part of each weight",
      choices = { "layer", "ratio" } },
    { "badam_start_block", "int", null, "layer: the block that begins, from 0; absent: the first, "
      .. "or the last of descending", least = 0 },
    { "badam_switch_mode", "string", "ascending", "layer: the order of the blocks",
      choices = { "ascending", "descending", "random", "fixed" } },
    { "badam_switch_interval", "int", 50, "layer: steps of a turn", least = 1 },
    { "badam_update_ratio", "float", 0.05, "ratio: the part of each weight's numbers" },
    { "badam_mask_mode", "string", "adjacent", "ratio: which of them: neighbours, or scattered",
      choices = { "adjacent", "scatter" } },
    { "badam_verbose", "int", 0, "what BAdam prints",
      ignored = "a turn of the blocks is one line in the log" },
  } },
}
