--- The table of optimizers. Fields of a row:
--   name      the value of the key `optim` that selects the optimizer
--   key       instead of `name`: a boolean key that selects it (if `when(c)` is true or absent)
--   moments   number of state elements per weight, in fp32
--   make(parameters, c, zero)   creates it; `zero` decides where its state is stored
-- An optimizer that trainer/rules implements has these fields instead of `moments` and `make`:
--   rule          its name in moonring.native.trainer
--   args          options allowed in optim_args: their names, or name there -> option
--   settings(c, given, facts)   options that neither optim_args nor a key of the option's meaning
--                 sets (rule_settings.lua). `given`: what optim_args sets, by option, which
--                 precedes; `facts` describe the checkpoint
-- A rule without a row here has one of its name, with `args` for all options that no key sets.
-- Optional fields:
--   words(c)  description for the model card; by default the name
--   check(c)  refuses incompatible keys
local matrix_optimizer_rows = require "moonring.choices.matrix_optimizer_rows"
local rule_settings = require "moonring.choices.rule_settings"
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
---@field settings? fun(c: moonring.Configuration, given: table<string, any>,
---   facts: moonring.CheckpointFacts): table<string, any>
---@field args? table<string | integer, string>
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

local function lion_words(c)
  return ("%s with betas=(%s,%s)"):format(c.optim, c.adam_beta1, c.adam_beta2)
end

local function lion(name) return { name = name, rule = "lion", words = lion_words } end

local function ademamix(name)
  return { name = name, rule = "ademamix",
    args = { "beta1", "beta2", "beta3", "alpha", "t_alpha", "t_beta3", eps = "epsilon" },
    settings = function(c)
      return { beta1 = c.adam_beta1, beta2 = c.adam_beta2, epsilon = c.adam_epsilon }
    end }
end

local function rmsprop(name)
  return { name = name, rule = "rmsprop",
    args = { "alpha", "momentum", "centered", eps = "epsilon" } }
end

-- The schedule-free optimizers get warmup_steps, except RAdam, as in Transformers.
local function schedule_free(kind)
  return { name = "schedule_free_" .. kind, rule = "schedule_free",
    args = { "weight_lr_power", "r", momentum = kind == "sgd" and "beta1" or nil },
    settings = function(c)
      return { kind = kind, beta1 = c.adam_beta1,
        warmup_steps = kind ~= "radam" and c.warmup_steps or nil }
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
  { name = "adagrad", rule = "adagrad",
    args = { "lr_decay", initial_accumulator_value = "initial", eps = "epsilon" } },
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
    args = { "threshold", "reset", "warmup", "quiet", "density", eps = "epsilon" } },
  -- BAdam's ratio mode. Its layer mode is in block_turns.lua.
  { key = "use_badam", when = function(c) return c.badam_mode == "ratio" end, rule = "badam_ratio",
    settings = function(c)
      return { ratio = c.badam_update_ratio, mask = c.badam_mask_mode }
    end,
    words = function(c)
      return ("BAdam of %g of each weight"):format(c.badam_update_ratio)
    end },
}

local function append(rows)
  for _, row in ipairs(rows) do optimizer_rows.rows[#optimizer_rows.rows + 1] = row end
end

append(matrix_optimizer_rows.rows)
append(rule_settings.further_rows(optimizer_rows.rows))

return optimizer_rows
