--- The optimizers of a run, by the words of the key `optim`: one row each. A row:
--   moments  numbers that the optimizer keeps beside each weight, in fp32 (the plan counts them)
--   make(parameters, c, zero)  the optimizer; `zero` is where its state lies
--   words(c)  its settings, for the model card
local compute = require "moonring.run.compute"
local errors = require "moonring.errors"
local machine = require "moonring.plan.machine"
local trainer = require "moonring.native.trainer"

---@class moonring.optimizers
local optimizers = {}

local function adamw(parameters, c, zero)
  return trainer.adamw(parameters, {
    weight_decay = c.weight_decay, loraplus_lr_ratio = c.loraplus_lr_ratio,
    beta1 = c.adam_beta1, beta2 = c.adam_beta2, epsilon = c.adam_epsilon, zero = zero,
  })
end

local function adamw_words(c)
  return ("%s with betas=(%s,%s) and epsilon=%s"):format(c.optim, c.adam_beta1, c.adam_beta2,
    c.adam_epsilon)
end

local function sgd(parameters, c)
  return trainer.sgd(parameters, { weight_decay = c.weight_decay,
    loraplus_lr_ratio = c.loraplus_lr_ratio })
end

local ROWS = {
  { name = "adamw_torch", moments = 2, make = adamw, words = adamw_words },
  { name = "adamw_torch_fused", moments = 2, make = adamw, words = adamw_words }, -- the same
  { name = "sgd", moments = 0, make = sgd, words = function(c) return c.optim end },
}

--- The names of all: what `optim` may be.
---@return string[]
function optimizers.names()
  local names = {}
  for i, row in ipairs(ROWS) do names[i] = row.name end
  return names
end

local function row_of(c)
  for _, row in ipairs(ROWS) do
    if row.name == c.optim then return row end
  end
end

--- Numbers that the optimizer keeps beside each weight.
---@param c moonring.Configuration
---@return integer
function optimizers.moments(c) return row_of(c).moments end

--- The optimizer and its settings, for the model card.
---@param c moonring.Configuration
---@return string
function optimizers.words(c) return row_of(c).words(c) end

--- Refuses keys that the optimizer has no use for.
---@param c moonring.Configuration
function optimizers.check(c)
  if c.offload_optimizer and row_of(c).moments == 0 then
    errors.fail("offload_optimizer: optim ", c.optim, " has no state")
  end
end

--- How the states of the run are sharded over ranks, by zero_stage, zero_group, offload_optimizer
--- and offload_dir. Collective over all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.Zero
function optimizers.zero(c, mesh)
  local on_disk = c.offload_optimizer == "disk"
  return trainer.zero { mesh = mesh, stage = c.zero_stage, group = c.zero_group,
    ranks_per_machine = machine.local_ranks(), offload = c.offload_optimizer,
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
---@return moonring.Optimizer
function optimizers.open(c, parameters, zero) return row_of(c).make(parameters, c, zero) end

return optimizers
