--- The optimizers of a run, a row each:
--   name      its word for the key `optim`
--   key       or a key that asks for it where it is true, and `when(c)`, where there is one, holds
--   moments   numbers that it keeps beside each weight, in fp32
--   make(parameters, c, zero)   makes it; `zero` is where its state lies
-- or, in place of the last two, one of trainer/rules, whose state is asked for its size:
--   rule          its name in moonring.native.trainer
--   settings(c, args, facts)   its options; `facts`: the checkpoint's
--   args          what optim_args may say, by name with type ("number", "integer", "boolean",
--                 "string"); absent: nothing
--   words(c)  its settings, for the model card; the name alone where absent
--   check(c)  refuses keys that do not go with it, where there are any
local matrix_optimizer_rows = require "moonring.choices.matrix_optimizer_rows"
local trainer = require "moonring.native.trainer"

---@class moonring.OptimizerRow
---@field name? string
---@field key? string
---@field when? fun(c: moonring.Configuration): boolean
---@field moments? number
---@field make? fun(parameters: moonring.Parameters, c: moonring.Configuration,
---   zero?: moonring.Zero): moonring.Optimizer
---@field rule? string
---@field settings? fun(c: moonring.Configuration, args: table<string, any>,
---   facts: moonring.CheckpointFacts): table<string, any>
---@field args? table<string, string>
---@field targets? string the key of names of linear maps
---@field words? fun(c: moonring.Configuration): string
---@field check? fun(c: moonring.Configuration)

---@class moonring.optimizer_rows
---@field rows moonring.OptimizerRow[]
local optimizer_rows = {}

-- bitsandbytes' names: its codes and blocks, by our own operators (trainer/moment.h), and in full
-- the states of embeddings, as Transformers' Trainer asks it to. What its "paged" ones do where a
-- GPU is full, offload_optimizer does here.
local IN_8BIT = { adamw_8bit = true, adamw_bnb_8bit = true, paged_adamw_8bit = true }

--- In what AdamW's state is held, in the words of optimizer_state.
---@param c moonring.Configuration
---@return string
function optimizer_rows.state_of(c)
  return IN_8BIT[c.optim] and "8bit" or c.optimizer_state
end

--- Whether the states of embeddings are held in full beside others in 8 bits.
---@param c moonring.Configuration
---@return boolean
function optimizer_rows.full_embeddings(c) return IN_8BIT[c.optim] == true end

--- AdamW of trainer/adamw.h.
---@param parameters moonring.Parameters
---@param c moonring.Configuration
---@param zero? moonring.Zero
---@return moonring.Optimizer
function optimizer_rows.adamw(parameters, c, zero)
  return trainer.adamw(parameters, {
    state = optimizer_rows.state_of(c), full_embeddings = optimizer_rows.full_embeddings(c),
    weight_decay = c.weight_decay, loraplus_lr_ratio = c.loraplus_lr_ratio,
    beta1 = c.adam_beta1, beta2 = c.adam_beta2, epsilon = c.adam_epsilon, zero = zero,
  })
end

local function adamw_words(c)
  local state = optimizer_rows.state_of(c)
  return ("%s with betas=(%s,%s) and epsilon=%s%s"):format(c.optim, c.adam_beta1, c.adam_beta2,
    c.adam_epsilon, state == "fp32" and "" or ", its state in " .. state)
end

local function adamw(name)
  return { name = name, moments = 2, make = optimizer_rows.adamw, words = adamw_words }
end

local function sgd(parameters, c)
  return trainer.sgd(parameters, { weight_decay = c.weight_decay,
    loraplus_lr_ratio = c.loraplus_lr_ratio })
end

local function lion_settings(c)
  return { beta1 = c.adam_beta1, beta2 = c.adam_beta2, weight_decay = c.weight_decay }
end

local function lion_words(c)
  return ("%s with betas=(%s,%s)"):format(c.optim, c.adam_beta1, c.adam_beta2)
end

local function lion(name)
  return { name = name, rule = "lion", settings = lion_settings, words = lion_words }
end

local AVERAGES = { beta1 = "number", beta2 = "number", beta3 = "number", alpha = "number",
  eps = "number", t_alpha = "integer", t_beta3 = "integer" }

local function ademamix(name)
  return { name = name, rule = "ademamix", args = AVERAGES, settings = function(c, args)
    return { beta1 = args.beta1 or c.adam_beta1, beta2 = args.beta2 or c.adam_beta2,
      beta3 = args.beta3, alpha = args.alpha, t_alpha = args.t_alpha, t_beta3 = args.t_beta3,
      epsilon = args.eps or c.adam_epsilon, weight_decay = c.weight_decay }
  end }
end

local function rmsprop(name)
  return { name = name, rule = "rmsprop",
    args = { alpha = "number", eps = "number", momentum = "number", centered = "boolean" },
    settings = function(c, args)
      return { alpha = args.alpha, epsilon = args.eps, momentum = args.momentum,
        centered = args.centered, weight_decay = c.weight_decay }
    end }
end

-- As Transformers passes warmup_steps on.
local function schedule_free(kind)
  return { name = "schedule_free_" .. kind, rule = "schedule_free",
    args = { weight_lr_power = "number", r = "number",
      momentum = kind == "sgd" and "number" or nil },
    settings = function(c, args)
      return { kind = kind, beta1 = kind == "sgd" and args.momentum or c.adam_beta1,
        beta2 = c.adam_beta2, epsilon = c.adam_epsilon, r = args.r,
        warmup_steps = kind ~= "radam" and c.warmup_steps or nil,
        weight_lr_power = args.weight_lr_power, weight_decay = c.weight_decay }
    end }
end

optimizer_rows.rows = {
  adamw "adamw_torch",
  adamw "adamw_torch_fused", -- the same
  adamw "adamw_8bit",
  adamw "adamw_bnb_8bit",
  adamw "paged_adamw_8bit",
  adamw "paged_adamw_32bit",
  { name = "sgd", moments = 0, make = sgd },
  { name = "sgd_momentum", rule = "sgd_momentum",
    args = { momentum = "number", dampening = "number", nesterov = "boolean" },
    settings = function(c, args)
      return { momentum = args.momentum, dampening = args.dampening, nesterov = args.nesterov,
        weight_decay = c.weight_decay }
    end },
  { name = "adagrad", rule = "adagrad",
    args = { lr_decay = "number", initial_accumulator_value = "number", eps = "number" },
    settings = function(c, args)
      return { lr_decay = args.lr_decay, initial = args.initial_accumulator_value,
        epsilon = args.eps, weight_decay = c.weight_decay }
    end },
  rmsprop "rmsprop",
  rmsprop "rmsprop_bnb",
  rmsprop "rmsprop_bnb_32bit",
  lion "lion_32bit",
  lion "paged_lion_32bit",
  ademamix "ademamix",
  ademamix "paged_ademamix_32bit",
  schedule_free "adamw",
  schedule_free "radam",
  schedule_free "sgd",
  { name = "spam", rule = "spam",
    args = { threshold = "number", reset = "integer", warmup = "integer", quiet = "integer",
      eps = "number", density = "number" },
    settings = function(c, args)
      return { beta1 = c.adam_beta1, beta2 = c.adam_beta2, epsilon = args.eps,
        threshold = args.threshold, reset = args.reset, warmup = args.warmup, quiet = args.quiet,
        density = args.density, seed = c.seed, weight_decay = c.weight_decay }
    end },
  -- Layer mode is block_turns.lua's: the blocks learn in turns by the optimizer of `optim`.
  { key = "use_badam", when = function(c) return c.badam_mode == "ratio" end, rule = "badam_ratio",
    settings = function(c)
      return { ratio = c.badam_update_ratio, mask = c.badam_mask_mode, beta1 = c.adam_beta1,
        beta2 = c.adam_beta2, epsilon = c.adam_epsilon, seed = c.seed }
    end,
    words = function(c)
      return ("BAdam of %g of each weight"):format(c.badam_update_ratio)
    end },
}

for _, row in ipairs(matrix_optimizer_rows.rows) do
  optimizer_rows.rows[#optimizer_rows.rows + 1] = row
end

return optimizer_rows
