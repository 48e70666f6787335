--- The table of optimizers. Fields of a row:
--   name      the value of the key `optim` that selects the optimizer
--   key       instead of `name`: a boolean key that selects it (if `when(c)` is true or absent)
--   moments   number of state elements per weight, in fp32
--   make(parameters, c, zero)   creates it; `zero` decides where its state is stored
-- An optimizer that trainer/rules implements has these fields instead of `moments` and `make`:
--   rule          its name in moonring.native.trainer
--   settings(c, args, facts)   its options; `facts` describe the checkpoint
--   args          options allowed in optim_args: name -> type ("number", "integer", "boolean",
--                 "string"); absent: none
-- Optional fields:
--   words(c)  description for the model card; by default the name
--   check(c)  refuses incompatible keys
local matrix_optimizer_rows = require "moonring.choices.matrix_optimizer_rows"
local trainer = require "moonring.native.trainer"

--- A row of the table of optimizers, as described above.
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
---@field targets? string the key that lists names of linear modules
---@field words? fun(c: moonring.Configuration): string
---@field check? fun(c: moonring.Configuration)

---@class moonring.optimizer_rows
---@field rows moonring.OptimizerRow[]
local optimizer_rows = {}

-- Names of bitsandbytes' 8-bit AdamW. Moonring uses the same codes and blocks with operators of its
-- own (trainer/optimizer/moment.h), and keeps the states of embeddings in fp32, as Transformers'
-- Trainer does. The "paged" variants page states out when a GPU is full; here offload_optimizer
-- does that instead.
local IN_8BIT = { adamw_8bit = true, adamw_bnb_8bit = true, paged_adamw_8bit = true }

--- The format in which AdamW's state is stored, as a value of optimizer_state.
---@param c moonring.Configuration
---@return string
function optimizer_rows.state_of(c)
  return IN_8BIT[c.optim] and "8bit" or c.optimizer_state
end

--- Whether the states of embeddings stay in fp32 while others are in 8 bits.
---@param c moonring.Configuration
---@return boolean
function optimizer_rows.full_embeddings(c) return IN_8BIT[c.optim] == true end

--- Creates AdamW (trainer/optimizer/adamw.h).
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

-- The schedule-free optimizers get warmup_steps, except RAdam, as in Transformers.
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
  adamw "adamw_torch_fused", -- same as adamw_torch
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
  -- BAdam's ratio mode. Its layer mode is in block_turns.lua.
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
