--- Reads DeepSpeed's JSON file. Its ZeRO stage and offload set zero_stage, zero_group,
-- offload_optimizer, offload_weights and offload_dir; its batch size sets global_batch_size.
-- Micro-batches, clipping, learning rate and precision must be "auto" or agree with the
-- configuration. Settings that would change results are refused. Bucket sizes and similar settings
-- (deepspeed_settings.lua) have no effect, and a note lists them.
local deepspeed_settings = require "moonring.config.deepspeed_settings"
local engine_settings = require "moonring.config.engine_settings"
local machine = require "moonring.base.machine"

---@class moonring.deepspeed
local deepspeed = {}

-- Checks the loss scale. DeepSpeed's loss scaler differs from Moonring's: it has a window of 1000
-- steps and tolerates an overflow.
local function check_scale(s)
  local scale = s:at "fp16.loss_scale"
  if not s.c.fp16 then return end
  if scale ~= nil and scale ~= 0 and scale ~= "auto" then
    s:fail("fp16.loss_scale is ", scale, ": a fixed scale is not supported; expected 0, which lets "
      .. "it grow and shrink")
  end
  s.c.notes[#s.c.notes + 1] = "deepspeed: the loss scale of fp16 starts at 65536 and follows the "
    .. "rule of torch.amp.GradScaler; the file's settings of it have no effect"
end

-- Refuses settings that contradict keys of the configuration.
local function check_agreement(s)
  local c = s.c
  s:agree("train_micro_batch_size_per_gpu", "per_device_train_batch_size",
    c.per_device_train_batch_size)
  s:agree("gradient_accumulation_steps", "gradient_accumulation_steps",
    c.gradient_accumulation_steps)
  s:agree("gradient_clipping", "max_grad_norm", c.max_grad_norm)
  s:agree("optimizer.params.lr", "learning_rate", c.learning_rate)
  s:agree("optimizer.params.weight_decay", "weight_decay", c.weight_decay)
  s:agree("optimizer.params.eps", "adam_epsilon", c.adam_epsilon)
  s:agree("optimizer.params.betas", "adam_beta1 and adam_beta2", { c.adam_beta1, c.adam_beta2 })
  s:agree("bf16.enabled", "bf16", c.bf16 or c.pure_bf16)
  s:agree("fp16.enabled", "fp16", c.fp16 or false)
  s:agree("sequence_parallel_size", "sequence_parallel_size", c.sequence_parallel_size)
  local kind = s:at "optimizer.type"
  local is_adamw = kind == "AdamW" or kind == "Adam" -- its Adam has decoupled decay too
  if kind and not (is_adamw and c.optim:find "^adamw") then
    s:fail("optimizer.type is ", kind, ", but optim is ", c.optim, "; expected AdamW and optim: "
      .. "adamw_torch, or no optimizer in the file")
  end
end

-- The device of offload_optimizer or offload_param: nil, "cpu" or "nvme".
local function device(s, what)
  local path = "zero_optimization." .. what .. ".device"
  local asked = s:at(path)
  if asked == nil or asked == "none" then return nil end
  if asked ~= "cpu" and asked ~= "nvme" then
    s:fail(path, ": expected none, cpu or nvme, got ", asked)
  end
  return asked
end

local function set_offload(s, stage)
  local optimizer, parameters = device(s, "offload_optimizer"), device(s, "offload_param")
  local place = "zero_optimization.offload_optimizer.nvme_path"
  local path = s:at(place)
  if optimizer then
    s:set("zero_optimization.offload_optimizer.device", "offload_optimizer",
      optimizer == "nvme" and "disk" or "cpu")
    if path and optimizer == "nvme" then s:set(place, "offload_dir", path) end
  end
  if not parameters then return end
  if parameters == "nvme" then
    s:fail("zero_optimization.offload_param: weights on a disk are not supported; expected cpu or "
      .. "none")
  end
  if stage < 3 or not optimizer then
    s:fail("zero_optimization.offload_param: shards of the weights are stored with the optimizer's "
      .. "state: expected stage 3 and offload_optimizer beside it")
  end
  s:set("zero_optimization.offload_param.device", "offload_weights", "cpu")
end

-- Sets zero_group. DeepSpeed's MiCS shards states within groups of mics_shard_size neighbouring
-- ranks.
local function set_group(s)
  local path, c = "zero_optimization.mics_shard_size", s.c
  local size = s:at(path)
  if size == nil or size == -1 then return end
  local group = size == c.sequence_parallel_size and "sp" or size == machine.local_ranks()
    and "node" or nil
  if not group then
    s:fail(path, " is ", size, ": expected sequence_parallel_size (", c.sequence_parallel_size,
      ") or the ranks of a machine (LOCAL_WORLD_SIZE: ", machine.local_ranks() or "not set", ")")
  end
  s:set(path, "zero_group", group)
end

--- Sets zero_stage, zero_group, offload_optimizer, offload_weights, offload_dir and
--- global_batch_size from `c.deepspeed`. Fails if the file cannot be read, if a setting (batch,
--- clipping, learning rate, precision, these keys) is neither "auto" nor equal to the
--- configuration's, or if it is not supported.
---@param c moonring.Configuration
function deepspeed.apply(c)
  local s = engine_settings.open(c, "deepspeed")
  if not s then return end
  check_agreement(s)
  check_scale(s)
  for _, each in ipairs(deepspeed_settings.refused) do s:refuse(each[1], each[2], each[3]) end
  local batch = s:at "train_batch_size"
  if batch and batch ~= "auto" then s:set("train_batch_size", "global_batch_size", batch) end
  local stage = s:at "zero_optimization.stage" or 0
  if not (stage == 0 or stage == 1 or stage == 2 or stage == 3) then
    s:fail("zero_optimization.stage: expected 0, 1, 2 or 3, got ", stage)
  end
  s:set("zero_optimization.stage", "zero_stage", stage)
  set_group(s)
  set_offload(s, stage)
  s:rest(deepspeed_settings.idle)
end

return deepspeed
