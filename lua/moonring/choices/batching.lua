--- Numbers of steps and of examples per step, and the schedule of evaluations, saves and log lines.
local rollout_settings = require "moonring.choices.rollout_settings"

---@class moonring.batching
local batching = {}

--- The counts of a run's steps and examples.
---@class moonring.Counts
---@field examples_per_step integer over all dp ranks
---@field steps_per_epoch integer
---@field total_steps integer max_steps where that is above 0
---@field orders? integer[][] for each epoch the order of its examples (example_order.lua)
---@field order_digest? string digest of `orders`
--- `epoch_after`: the number of epochs completed after step `index` of epoch `epoch`, both from 0.
---@field epoch_after fun(epoch: integer, index: integer): number

-- The counts of a streamed data set, whose number of examples is unknown. As in the Hugging Face
-- Trainer, max_steps count as one epoch, and each pass over the rows starts another one.
local function of_stream(c, examples_per_step)
  return {
    examples_per_step = examples_per_step,
    steps_per_epoch = c.max_steps,
    total_steps = c.max_steps,
    epoch_after = function(epoch, index) return epoch + (index + 1) / c.max_steps end,
  }
end

-- The counts for stages whose examples are generated completions. One rollout provides the examples
-- of several steps.
local function of_rollouts(c, prompts, dp)
  local of = rollout_settings.of(c, dp)
  local rollouts = math.ceil(prompts / of.prompts)
  if c.dataloader_drop_last then rollouts = math.max(math.floor(prompts / of.prompts), 1) end
  local steps = rollouts * of.steps
  return {
    examples_per_step = of.completions,
    steps_per_epoch = steps,
    total_steps = c.max_steps > 0 and c.max_steps or math.ceil(c.num_train_epochs * steps),
    epoch_after = function(epoch, index) return epoch + (index + 1) / steps end,
  }
end

--- The number of steps between two events: `value`; if it is below 1, this fraction of all steps.
---@param value number
---@param total_steps integer
---@return integer
function batching.interval(value, total_steps)
  return value < 1 and math.ceil(value * total_steps) or value
end

--- Counts the steps as the Hugging Face Trainer does. Batches per epoch = ceil(n / (batch x dp)),
--- or rounded down with dataloader_drop_last; steps per epoch = ceil(batches / accumulation).
---@param c moonring.Configuration
---@param examples? integer nil for a streamed data set
---@param dp integer `mesh:dp_size()`
---@return moonring.Counts
function batching.of(c, examples, dp)
  if rollout_settings.wanted(c) then return of_rollouts(c, examples, dp) end
  local batch, accumulation = c.per_device_train_batch_size * dp, c.gradient_accumulation_steps
  if c.global_batch_size then batch, accumulation = c.global_batch_size, 1 end
  if not examples then return of_stream(c, batch * accumulation) end
  local batches = math.ceil(examples / batch)
  if c.dataloader_drop_last then batches = math.max(math.floor(examples / batch), 1) end
  local steps = math.ceil(batches / accumulation)
  return {
    examples_per_step = batch * accumulation,
    steps_per_epoch = steps,
    total_steps = c.max_steps > 0 and c.max_steps or math.ceil(c.num_train_epochs * steps),
    epoch_after = function(epoch, index)
      return epoch + math.min((index + 1) * accumulation, batches) / batches
    end,
  }
end

--- Maximum tokens of a document: cutoff_len, or in stages with rollouts prompt plus completion.
---@param c moonring.Configuration
---@return integer
function batching.longest(c)
  if not rollout_settings.wanted(c) then return c.cutoff_len end
  local _, whole = rollout_settings.longest(c)
  return whole
end

--- The maximum number of tokens of a micro-batch, in training and evaluation: all tokens that one
--- sp group processes in one forward.
---@param c moonring.Configuration
---@return integer
function batching.micro_batch_tokens(c)
  return c.micro_batch_tokens or batching.longest(c) * c.per_device_train_batch_size
end

--- The steps of a run, in the order given by seed, data_seed and disable_shuffling.
---@param c moonring.Configuration
---@param dataset moonring.Dataset | moonring.Stream
---@param mesh moonring.Mesh
---@param of moonring.Counts
---@return moonring.Steps
function batching.steps(c, dataset, mesh, of)
  local tokens, dp = batching.micro_batch_tokens(c), mesh:dp_size()
  if c.streaming then
    local batch = c.global_batch_size or c.per_device_train_batch_size
    return dataset:steps { mesh = mesh, batch = batch, batches = of.examples_per_step / batch,
      total_steps = of.total_steps, micro_batch_tokens = tokens,
      share_prefixes = c.share_prefixes }
  end
  local batch = c.global_batch_size or c.per_device_train_batch_size * dp
  if rollout_settings.wanted(c) then return batching.prompts(c, dataset, mesh) end
  return dataset:steps {
    drop_last = c.dataloader_drop_last and batch or nil,
    mesh = mesh,
    batch = of.examples_per_step,
    orders = of.orders,
    seed = c.data_seed or c.seed,
    shuffle = not c.disable_shuffling,
    total_steps = of.total_steps,
    micro_batch_tokens = tokens,
    share_prefixes = c.share_prefixes,
    group_by_length = c.group_by_length and not c.disable_shuffling or nil,
  }
end

--- The prompts for a run's rollouts. Each "step" of the result contains the prompts of one rollout.
--- If max_steps needs more rollouts, the prompts are repeated.
---@param c moonring.Configuration
---@param dataset moonring.Dataset
---@param mesh moonring.Mesh
---@return moonring.Steps
function batching.prompts(c, dataset, mesh)
  local of = rollout_settings.of(c, mesh:dp_size())
  local an_epoch = math.ceil(dataset:size() / of.prompts)
  return dataset:steps { mesh = mesh, batch = of.prompts, seed = c.data_seed or c.seed,
    drop_last = c.dataloader_drop_last and of.prompts or nil, shuffle = not c.disable_shuffling,
    total_steps = c.max_steps > 0 and 2 ^ 40 or math.ceil(c.num_train_epochs * an_epoch),
    micro_batch_tokens = 2 ^ 40 }
end

--- The steps of one epoch over a data set, with the micro-batches of training's first epoch
--- ("train") or of an evaluation ("eval").
---@param c moonring.Configuration
---@param dataset moonring.Dataset
---@param mesh moonring.Mesh
---@param split "train" | "eval"
---@return moonring.Steps
function batching.epoch(c, dataset, mesh, split)
  if split == "train" then
    local of = batching.of(c, dataset:size(), mesh:dp_size())
    of.total_steps = of.steps_per_epoch
    return batching.steps(c, dataset, mesh, of)
  end
  local batch = c.per_device_eval_batch_size * mesh:dp_size()
  return dataset:steps { mesh = mesh, batch = batch, shuffle = false,
    total_steps = math.ceil(dataset:size() / batch),
    micro_batch_tokens = batching.micro_batch_tokens(c), share_prefixes = c.share_prefixes }
end

-- Whether an evaluation after step k is too early: eval_delay gives the first step, or epoch, with
-- an evaluation.
local function is_early(c, of, k, step)
  if c.eval_strategy == "steps" then return k < c.eval_delay end
  return of.epoch_after(step:epoch(), step:index()) < c.eval_delay
end

--- Returns a function that decides whether to evaluate, save or log after step k. With strategy
--- "epoch", the run's last step counts as the end of an epoch, as in Transformers. It does not
--- handle save_strategy: best, with which a save follows each evaluation that is the best so far.
---@param c moonring.Configuration
---@param what "eval" | "save" | "logging"
---@param of moonring.Counts
---@return fun(k: integer, step: moonring.Step): boolean
function batching.due(c, what, of)
  local strategy, total = c[what .. "_strategy"], of.total_steps
  local every = batching.interval(c[what .. "_steps"] or c.logging_steps, total)
  return function(k, step)
    if what == "eval" and strategy ~= "no" and is_early(c, of, k, step) then return false end
    if strategy == "epoch" then return step:last() or k == total end
    return strategy == "steps" and (k % every == 0 or what == "save" and k == total)
  end
end

return batching
