--- The optimizers of a run, by the words of the key `optim`: one row each; or a user's own
-- (own_optimizer.lua). A row:
--   moments  numbers that the optimizer keeps beside each weight, in fp32 (the plan counts them)
--   make(parameters, c, zero)  the optimizer; `zero` is where its state lies
--   words(c)  its settings, for the model card
local compute = require "moonring.run.compute"
local errors = require "moonring.errors"
local expert_ranks = require "moonring.run.expert_ranks"
local machine = require "moonring.plan.machine"
local own_optimizer = require "moonring.run.own_optimizer"
local own_pieces = require "moonring.config.own_pieces"
local trainer = require "moonring.native.trainer"

---@class moonring.optimizers
local optimizers = {}

-- Numbers in which AdamW's state is held, in the words of optimizer_state.
local function state_of(c)
  local by_name = c.optim == "adamw_8bit" or c.optim == "adamw_bnb_8bit"
  return by_name and "8bit" or c.optimizer_state
end

local function adamw(parameters, c, zero)
  return trainer.adamw(parameters, {
    state = state_of(c),
    weight_decay = c.weight_decay, loraplus_lr_ratio = c.loraplus_lr_ratio,
    beta1 = c.adam_beta1, beta2 = c.adam_beta2, epsilon = c.adam_epsilon, zero = zero,
  })
end

local function adamw_words(c)
  local state = state_of(c)
  return ("%s with betas=(%s,%s) and epsilon=%s%s"):format(c.optim, c.adam_beta1, c.adam_beta2,
    c.adam_epsilon, state == "fp32" and "" or ", its state in " .. state)
end

local function sgd(parameters, c)
  return trainer.sgd(parameters, { weight_decay = c.weight_decay,
    loraplus_lr_ratio = c.loraplus_lr_ratio })
end

local ROWS = {
  { name = "adamw_torch", moments = 2, make = adamw, words = adamw_words },
  { name = "adamw_torch_fused", moments = 2, make = adamw, words = adamw_words }, -- the same
  -- bitsandbytes' names: its codes and blocks, by our own operators (trainer/moment.h).
  { name = "adamw_8bit", moments = 2, make = adamw, words = adamw_words },
  { name = "adamw_bnb_8bit", moments = 2, make = adamw, words = adamw_words },
  { name = "sgd", moments = 0, make = sgd, words = function(c) return c.optim end },
}

--- The names of all: what `optim` may be.
---@return string[]
function optimizers.names()
  local names = {}
  for i, row in ipairs(ROWS) do names[i] = row.name end
  return names
end

-- The rule of a user's own optimizer, out of what a file returned or a script gave. `model`: nil
-- before there is one.
local function rule_of(own, c, model)
  local rule = own.value
  if type(rule) == "function" then
    local ok, made = pcall(rule, c, model)
    if not ok then errors.prefix(made, "optim: ", own.place, ": ") end
    rule = made
  end
  local ok, made = pcall(own_optimizer.new, rule)
  if not ok then own_pieces.refuse(own, "optim", errors.words(made)) end
  return made
end

-- A user's own optimizer as a row; `moments` where it says them.
local function own_row(own)
  local row = { moments = 2, assumed = own.place }
  function row.make(parameters, c, zero, model)
    return rule_of(own, c, model):over(parameters, { zero = zero,
      loraplus_lr_ratio = c.loraplus_lr_ratio })
  end
  function row.words(c)
    local ok, rule = pcall(rule_of, own, c)
    return ok and rule.name and ("%s (%s)"):format(rule.name, own.place) or own.place
  end
  return row
end

local function row_of(c)
  local own = own_pieces.of(c, "optim")
  if own then return own_row(own) end
  for _, row in ipairs(ROWS) do
    if row.name == c.optim then return row end
  end
end

--- Numbers that the optimizer keeps beside each weight. Of a user's own: what it says, or 2; it is
--- asked before there is a model.
---@param c moonring.Configuration
---@return number
---@return string? assumed whose they are, where they are a guess
function optimizers.moments(c)
  local row, own = row_of(c), own_pieces.of(c, "optim")
  local ok, rule = pcall(rule_of, own, c)
  if own and ok and rule.moments then return rule.moments end
  return row.moments, row.assumed
end

--- Bytes in which each of these numbers is held between steps; nil: the gradient's.
---@param c moonring.Configuration
---@return number?
function optimizers.moment_bytes(c)
  local adamws = not own_pieces.of(c, "optim") and row_of(c).make == adamw
  return adamws and ({ bf16 = 2, ["8bit"] = 1 + 4 / 256 })[state_of(c)] or nil
end

--- The optimizer and its settings, for the model card.
---@param c moonring.Configuration
---@return string
function optimizers.words(c) return row_of(c).words(c) end

--- Refuses keys that the optimizer has no use for.
---@param c moonring.Configuration
function optimizers.check(c)
  local own = own_pieces.of(c, "optim")
  if own and type(own.value) ~= "function" then rule_of(own, c) end
  if own and c.offload_optimizer == "disk" then
    errors.fail("offload_optimizer: disk: an optimizer in Lua (", own.place,
      ") keeps its state in memory; cpu puts it into the host's")
  end
  if c.optimizer_state ~= "fp32" and (own or row_of(c).make ~= adamw) then
    errors.fail("optimizer_state: ", c.optimizer_state, " is for AdamW, not for optim: ", c.optim)
  end
  if state_of(c) ~= "fp32" and c.fp64 then
    errors.fail("optimizer_state: ", state_of(c), " is not for fp64")
  end
  if c.offload_weights and c.finetuning_type ~= "lora" and not c.offload_optimizer then
    errors.fail("offload_weights: the optimizer makes its step where the weights lie: wanted ",
      "offload_optimizer beside it")
  end
  if c.offload_weights and c.zero_stage ~= 0 and c.zero_stage ~= 3 then
    errors.fail("offload_weights: wanted zero_stage 0 or 3, got ", c.zero_stage,
      ", which gathers whole weights after each step")
  end
  expert_ranks.check_keys(c)
  if c.offload_optimizer and row_of(c).moments == 0 then
    errors.fail("offload_optimizer: optim ", c.optim, " has no state")
  end
end

--- How the states of the run are sharded over ranks, by zero_stage, zero_group, offload_optimizer,
--- offload_dir and expert_parallel_size. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.Zero
function optimizers.zero(c, mesh)
  local on_disk = c.offload_optimizer == "disk"
  return trainer.zero { mesh = mesh, stage = c.zero_stage, group = c.zero_group,
    ranks_per_machine = machine.local_ranks(), offload = c.offload_optimizer,
    streams = c.offload_weights ~= nil, cast_once = c.cast_weights == "step",
    expert_ranks = c.expert_parallel_size,
    folder = on_disk and (c.offload_dir or c.output_dir) or nil }
end

--- The states of what learns: its shards on this rank. Matrices are held in bf16 with bf16.
--- Collective over all ranks.
---@param c moonring.Configuration
---@param zero moonring.Zero
---@param parameters moonring.Parameters
---@return moonring.States
function optimizers.states(c, zero, parameters)
  local held = compute.precision(c) == "bf16" and "bf16" or nil
  return zero:states(parameters, { held = held })
end

--- The optimizer of a configuration.
---@param c moonring.Configuration
---@param parameters moonring.Parameters the states'
---@param zero? moonring.Zero whose memory the optimizer's state takes
---@param model? moonring.Model for a user's own
---@return moonring.Optimizer
function optimizers.open(c, parameters, zero, model)
  return row_of(c).make(parameters, c, zero, model)
end

return optimizers
