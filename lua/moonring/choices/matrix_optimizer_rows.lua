--- Optimizers that work on whole matrices: further rows for optimizer_rows.lua, which documents the
-- fields.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local errors = require "moonring.base.errors"

---@class moonring.matrix_optimizer_rows
---@field rows moonring.OptimizerRow[]
local matrix_optimizer_rows = {}

-- Converts a list of target modules in LLaMA-Factory's notation to a list of names; nil for "all".
local function targets(list)
  if type(list) == "string" then list = { list } end
  return not (#list == 1 and list[1] == "all") and list or nil
end

-- Adds a check to an optimizer that a key of its own (such as use_galore) selects instead of
-- `optim`.
local function by_key(row, for_adapters)
  function row.check(c)
    if adapter_kinds.has(c) and not for_adapters then
      errors.fail(row.key, ": expected finetuning_type full or freeze, got ", c.finetuning_type)
    end
    if c.optim ~= "adamw_torch" then
      errors.fail(row.key, ": expected optim: adamw_torch beside it, got ", c.optim)
    end
    for _, key in ipairs { "use_galore", "use_apollo", "use_badam", "use_adam_mini", "use_muon" } do
      if key ~= row.key and c[key] then errors.fail(row.key, ": it goes without ", key) end
    end
  end
  return row
end

matrix_optimizer_rows.rows = {
  { name = "muon", rule = "muon",
    args = { "momentum", "nesterov", ns_steps = "iterations", adjust_lr_fn = "scale" } },
  by_key({ key = "use_muon", rule = "muon",
    settings = function() return { form = "llamafactory", scale = "match_rms_adamw" } end,
    words = function() return "Muon, with AdamW for all but matrices" end }, true),
  by_key { key = "use_galore", rule = "galore", targets = "galore_target",
    settings = function(c)
      return { rank = c.galore_rank, gap = c.galore_update_interval, scale = c.galore_scale,
        projection = c.galore_proj_type, targets = targets(c.galore_target) }
    end,
    words = function(c) return ("GaLore of rank %d"):format(c.galore_rank) end },
  by_key { key = "use_apollo", rule = "apollo", targets = "apollo_target",
    settings = function(c)
      return { rank = c.apollo_rank, gap = c.apollo_update_interval, scale = c.apollo_scale,
        source = c.apollo_proj, projection = c.apollo_proj_type, scale_by = c.apollo_scale_type,
        scale_front = c.apollo_scale_front, targets = targets(c.apollo_target) }
    end,
    words = function(c) return ("APOLLO of rank %d"):format(c.apollo_rank) end },
  by_key { key = "use_adam_mini", rule = "adam_mini",
    settings = function(_, _, facts)
      return { hidden_size = facts.hidden_size, heads = facts.heads }
    end,
    words = function() return "Adam-mini" end },
  { name = "adafactor", rule = "adafactor" },
  { name = "adafactor_torch", rule = "adafactor",
    args = { beta2_decay = "decay_rate", d = "clip" },
    settings = function(_, given)
      -- torch's beta2_decay is an exponent of the step, below 0.
      given.decay_rate = given.decay_rate and -given.decay_rate
      return { form = "torch" }
    end },
  { name = "fira", rule = "fira",
    args = { "rank", "alpha", update_proj_gap = "gap", proj_type = "projection" } },
  { name = "conda", rule = "conda", args = { "scale", update_proj_gap = "gap" } },
  { name = "online_subspace", rule = "online_subspace",
    args = { "rank", "scale", update_proj_gap = "gap" } },
  { name = "grass", rule = "grass",
    args = { "rank", "alpha", "sampling", update_proj_gap = "gap" } },
}

return matrix_optimizer_rows
