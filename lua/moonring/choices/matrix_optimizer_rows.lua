--- Optimizers that work on whole matrices: further rows for optimizer_rows.lua, which documents the
-- fields.
local adapter_kinds = require "moonring.choices.adapter_kinds"
local errors = require "moonring.base.errors"

---@class moonring.matrix_optimizer_rows
---@field rows moonring.OptimizerRow[]
local matrix_optimizer_rows = {}

local function adam(c, settings)
  settings.beta1, settings.beta2, settings.epsilon = c.adam_beta1, c.adam_beta2, c.adam_epsilon
  settings.weight_decay = c.weight_decay
  return settings
end

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

local LOW_RANK = { rank = "integer", update_proj_gap = "integer", proj_type = "string" }

local function low_rank(more)
  local args = {}
  for name, kind in pairs(LOW_RANK) do args[name] = kind end
  for name, kind in pairs(more) do args[name] = kind end
  return args
end

matrix_optimizer_rows.rows = {
  { name = "muon", rule = "muon",
    args = { momentum = "number", nesterov = "boolean", ns_steps = "integer",
      adjust_lr_fn = "string" },
    settings = function(c, args)
      return adam(c, { form = "torch", momentum = args.momentum, nesterov = args.nesterov,
        iterations = args.ns_steps, scale = args.adjust_lr_fn })
    end },
  by_key({ key = "use_muon", rule = "muon",
    settings = function(c)
      return adam(c, { form = "llamafactory", scale = "match_rms_adamw" })
    end,
    words = function() return "Muon, with AdamW for all but matrices" end }, true),
  by_key { key = "use_galore", rule = "galore", targets = "galore_target",
    settings = function(c)
      return adam(c, { rank = c.galore_rank, gap = c.galore_update_interval,
        scale = c.galore_scale, projection = c.galore_proj_type,
        targets = targets(c.galore_target) })
    end,
    words = function(c) return ("GaLore of rank %d"):format(c.galore_rank) end },
  by_key { key = "use_apollo", rule = "apollo", targets = "apollo_target",
    settings = function(c)
      return adam(c, { rank = c.apollo_rank, gap = c.apollo_update_interval,
        scale = c.apollo_scale, source = c.apollo_proj, projection = c.apollo_proj_type,
        scale_by = c.apollo_scale_type, scale_front = c.apollo_scale_front,
        targets = targets(c.apollo_target), seed = c.seed })
    end,
    words = function(c) return ("APOLLO of rank %d"):format(c.apollo_rank) end },
  by_key { key = "use_adam_mini", rule = "adam_mini",
    settings = function(c, _, facts)
      return adam(c, { hidden_size = facts.hidden_size, heads = facts.heads })
    end,
    words = function() return "Adam-mini" end },
  { name = "adafactor", rule = "adafactor",
    settings = function(c) return { form = "transformers", weight_decay = c.weight_decay } end },
  { name = "adafactor_torch", rule = "adafactor",
    args = { beta2_decay = "number", d = "number" },
    settings = function(c, args)
      return { form = "torch", decay_rate = args.beta2_decay and -args.beta2_decay, clip = args.d,
        weight_decay = c.weight_decay }
    end },
  { name = "fira", rule = "fira", args = low_rank { alpha = "number" },
    settings = function(c, args)
      return adam(c, { rank = args.rank, gap = args.update_proj_gap, alpha = args.alpha,
        projection = args.proj_type })
    end },
  { name = "conda", rule = "conda", args = { update_proj_gap = "integer", scale = "number" },
    settings = function(c, args)
      return adam(c, { gap = args.update_proj_gap, scale = args.scale })
    end },
  { name = "online_subspace", rule = "online_subspace",
    args = { rank = "integer", update_proj_gap = "number", scale = "number" },
    settings = function(c, args)
      return adam(c, { rank = args.rank, gap = args.update_proj_gap, scale = args.scale,
        learning_rate = c.learning_rate })
    end },
  { name = "swan", rule = "swan",
    args = { alpha = "number", ns_steps = "integer", ns_beta = "number" },
    settings = function(c, args)
      return adam(c, { alpha = args.alpha, ns_steps = args.ns_steps, ns_beta = args.ns_beta })
    end },
  { name = "grass", rule = "grass",
    args = { rank = "integer", update_proj_gap = "integer", alpha = "number",
      sampling = "string" },
    settings = function(c, args)
      return adam(c, { rank = args.rank, gap = args.update_proj_gap, alpha = args.alpha,
        sampling = args.sampling, seed = c.seed })
    end },
}

return matrix_optimizer_rows
