--- Selects and creates the run's optimizer: a row of optimizer_rows.lua, or a custom one
-- (custom_optimizer.lua).
local adapter_kinds = require "moonring.choices.adapter_kinds"
local block_turns = require "moonring.choices.block_turns"
local compute = require "moonring.choices.compute"
local errors = require "moonring.base.errors"
local expert_ranks = require "moonring.choices.expert_ranks"
local machine = require "moonring.base.machine"
local optim_args = require "moonring.choices.optim_args"
local optimizer_rows = require "moonring.choices.optimizer_rows"
local custom_optimizer = require "moonring.choices.custom_optimizer"
local custom_pieces = require "moonring.choices.custom_pieces"
local rounds = require "moonring.choices.rounds"
local rule_settings = require "moonring.choices.rule_settings"
local trainer = require "moonring.native.trainer"

---@class moonring.optimizers
local optimizers = {}

local ROWS, adamw, state_of = optimizer_rows.rows, optimizer_rows.adamw, optimizer_rows.state_of

--- All valid values of `optim` except Lua files.
---@return string[]
function optimizers.names()
  local names = {}
  for _, row in ipairs(ROWS) do names[#names + 1] = row.name end
  return names
end

-- Returns the update rule of a custom optimizer from `own`, the component that a Lua file returned
-- or a script passed. `model` is nil before the model is loaded.
local function rule_of(own, c, model)
  local rule = own.value
  if type(rule) == "function" then
    local ok, made = pcall(rule, c, model)
    if not ok then errors.prefix(made, "optim: ", own.place, ": ") end
    rule = made
  end
  local ok, made = pcall(custom_optimizer.new, rule)
  if not ok then custom_pieces.refuse(own, "optim", errors.words(made)) end
  return made
end

-- Makes a row of the optimizer table for a custom optimizer. Its `moments` is a guess until the
-- update rule is known.
local function custom_row(own)
  local row = { name = own.place, moments = 2, assumed = own.place }
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
  local own = custom_pieces.of(c, "optim")
  if own then return custom_row(own) end
  for _, row in ipairs(ROWS) do
    if row.key and c[row.key] and (not row.when or row.when(c)) then return row end
  end
  for _, row in ipairs(ROWS) do
    if row.name == c.optim then return row end
  end
end

local function args_of(row, c)
  return optim_args.read(c.optim_args, row.rule and rule_settings.types(row) or {},
    row.name or row.key)
end

-- Refuses names in a list of target modules that match no weight, for optimizers with such a list.
local function check_targets(row, parameters, c)
  local list = row.targets and c[row.targets] or {}
  if type(list) ~= "table" or list[1] == "all" then return end
  for _, target in ipairs(list) do
    local found = false
    for _, each in ipairs(parameters:list()) do
      found = found or each:name():find(target, 1, true) ~= nil
    end
    if not found then
      errors.fail(row.targets, ": no trainable weight has '", target, "' in its name")
    end
  end
end

local function make(row, parameters, c, facts, zero, model)
  if not row.rule then return row.make(parameters, c, zero, model) end
  local settings = rule_settings.of(row, c, args_of(row, c), facts)
  settings.zero, settings.loraplus_lr_ratio = zero, c.loraplus_lr_ratio
  return trainer[row.rule](parameters, settings)
end

-- Measures, on meta tensors, how many state elements an update rule keeps per trainable weight.
local function kept_by_rule(row, c, facts, learns)
  local names, shapes, numbers = {}, {}, 0
  for i, each in ipairs(learns) do
    names[i], shapes[i] = each.name, each.shape
    local size = 1
    for _, length in ipairs(each.shape) do size = size * length end
    numbers = numbers + size
  end
  local optimizer = make(row, trainer.meta_parameters(names, shapes), c, facts)
  return numbers > 0 and trainer.new_state_bytes(optimizer) / 4 / numbers or 0
end

--- The average number of state elements per weight. For a custom optimizer it is the field
--- `moments`, or 2; to read this field the optimizer is created without a model.
---@param c moonring.Configuration
---@param facts moonring.CheckpointFacts
---@param learns fun(): { name: string, shape: integer[] }[] the trainable weights
---@return number
---@return string? assumed the custom optimizer's source if the number is a guess
function optimizers.moments(c, facts, learns)
  local row, own = row_of(c), custom_pieces.of(c, "optim")
  local ok, rule = pcall(rule_of, own, c)
  if own and ok and rule.moments then return rule.moments end
  if row.rule then return kept_by_rule(row, c, facts, learns()) end
  return row.moments, row.assumed
end

-- The fraction of trainable elements that belong to embeddings whose optimizer state stays in fp32.
local function full_share(c, learns)
  if c.finetuning_type ~= "full" or not optimizer_rows.full_embeddings(c) then return 0 end
  local full, all = 0, 0
  for _, each in ipairs(learns()) do
    local size = 1
    for _, length in ipairs(each.shape) do size = size * length end
    all = all + size
    if trainer.is_embedding(each.name) then full = full + size end
  end
  return all > 0 and full / all or 0
end

--- The average number of bytes per state element between steps; nil if states have the gradient's
--- dtype.
---@param c moonring.Configuration
---@param learns fun(): { name: string, shape: integer[] }[] the trainable weights
---@return number?
function optimizers.moment_bytes(c, learns)
  local adamws = not custom_pieces.of(c, "optim") and row_of(c).make == adamw
  local each = adamws and ({ bf16 = 2, ["8bit"] = 1 + 4 / 256 })[state_of(c)]
  if not each then return nil end
  local share = full_share(c, learns)
  return each * (1 - share) + 4 * share
end

--- Description of the optimizer and its settings, for the model card, without optim_args.
---@param c moonring.Configuration
---@return string
function optimizers.words(c)
  local row = row_of(c)
  return row.words and row.words(c) or row.name or row.key
end

--- Whether blocks are trained in turns (block_turns.lua).
---@param c moonring.Configuration
---@return boolean
function optimizers.turns(c) return c.use_badam and c.badam_mode == "layer" end

--- Refuses keys that are incompatible with the optimizer.
---@param c moonring.Configuration
function optimizers.check(c)
  local own, row = custom_pieces.of(c, "optim"), row_of(c)
  if own and type(own.value) ~= "function" then rule_of(own, c) end
  if own and c.offload_optimizer == "disk" then
    errors.fail("offload_optimizer: disk: an optimizer in Lua (", own.place,
      ") keeps its state in memory; cpu puts it into the host's")
  end
  if row.rule and c.offload_optimizer == "disk" then
    errors.fail("offload_optimizer: disk: of the optimizers AdamW alone has its state there, not ",
      row.name or row.key, "; cpu puts it into the host's memory")
  end
  if row.rule and c.expert_parallel_size > 1 then
    errors.fail("expert_parallel_size: expected 1 with optim: ", row.name or row.key, ", got ",
      c.expert_parallel_size)
  end
  args_of(row, c)
  if row.check then row.check(c) end
  if optimizers.turns(c) then block_turns.check(c) end
  if row.rule == "badam_ratio" and c.weight_decay ~= 0 then
    errors.fail("weight_decay: badam_mode: ratio decays no weight, expected 0, got ",
      c.weight_decay)
  end
  if c.optimizer_state ~= "fp32" and row.make ~= adamw then
    errors.fail("optimizer_state: ", c.optimizer_state, " is for AdamW, not for optim: ", c.optim)
  end
  if state_of(c) ~= "fp32" and c.fp64 then
    errors.fail("optimizer_state: ", state_of(c), " is not for fp64")
  end
  if c.offload_weights and not adapter_kinds.has(c) and not c.offload_optimizer then
    errors.fail("offload_weights: the optimizer step runs where the weights are stored: expected ",
      "offload_optimizer beside it")
  end
  if c.offload_weights and c.zero_stage ~= 0 and c.zero_stage ~= 3 then
    errors.fail("offload_weights: expected zero_stage 0 or 3, got ", c.zero_stage,
      ", which gathers whole weights after each step")
  end
  expert_ranks.check_keys(c)
  rounds.check(c)
  if c.offload_optimizer and row.moments == 0 then
    errors.fail("offload_optimizer: optim ", c.optim, " has no state")
  end
end

--- Creates the object that shards weights, gradients and optimizer states over ranks, from
--- zero_stage, zero_group, offload_optimizer, offload_dir and expert_parallel_size. Collective over
--- all ranks.
---@param c moonring.Configuration
---@param mesh moonring.Mesh
---@return moonring.Zero
function optimizers.zero(c, mesh)
  local on_disk = c.offload_optimizer == "disk"
  return trainer.zero { mesh = mesh, stage = c.zero_stage, group = c.zero_group,
    ranks_per_machine = machine.local_ranks(), offload = c.offload_optimizer,
    streams = c.offload_weights ~= nil, cast_once = c.cast_weights == "step",
    expert_ranks = c.expert_parallel_size, apart = rounds.wanted(c),
    folder = on_disk and (c.offload_dir or c.output_dir) or nil }
end

--- Creates this rank's shards of the trainable weights, with their gradients (moonring.States).
--- With bf16 and fp16, matrices are also kept in that dtype for matrix products. Collective over
--- all ranks.
---@param c moonring.Configuration
---@param zero moonring.Zero
---@param parameters moonring.Parameters
---@return moonring.States
function optimizers.states(c, zero, parameters)
  return zero:states(parameters, { held = compute.held(c) })
end

--- Creates the optimizer of a configuration.
---@param c moonring.Configuration
---@param parameters moonring.Parameters the parameters of the states
---@param facts moonring.CheckpointFacts
---@param zero? moonring.Zero decides where the optimizer's state is stored
---@param model? moonring.Model passed to a custom optimizer
---@return moonring.Optimizer
function optimizers.open(c, parameters, facts, zero, model)
  local row = row_of(c)
  check_targets(row, parameters, c)
  return make(row, parameters, c, facts, zero, model)
end

return optimizers
