--- DeepSpeed's JSON file, as far as it bears on a run: its ZeRO stage and offload become
-- zero_stage, zero_group, offload_optimizer, offload_weights and offload_dir. What it says of
-- batches, clipping, rates and precision must be "auto" or agree with the configuration; sizes of
-- buckets and the like change no number and are passed over.
local config = require "moonring.config"
local machine = require "moonring.plan.machine"
local system = require "moonring.native.system"

---@class moonring.deepspeed
local deepspeed = {}

-- The value at a path of keys, nil where there is none.
local function at(settings, path)
  for name in path:gmatch "[^.]+" do
    if type(settings) ~= "table" then return nil end
    settings = settings[name]
  end
  if settings == system.null then return nil end
  return settings
end

local function same(a, b)
  if type(a) == "table" then
    return type(b) == "table" and #a == #b and same(a[1], b[1]) and same(a[2], b[2])
  end
  return a == b or (tonumber(a) ~= nil and tonumber(a) == tonumber(b))
end

local function show(value)
  return type(value) == "table" and system.json_encode(value) or tostring(value)
end

-- Refuses a setting that is neither "auto" nor the key's own value.
local function check(name, settings, path, key, value)
  local asked = at(settings, path)
  if asked == nil or asked == "auto" or same(asked, value) then return end
  config.fail("deepspeed: ", name, ": ", path, " is ", show(asked), ", but ", key, " is ",
    show(value), '; wanted "auto" or the same')
end

-- DeepSpeed's own scaler has other numbers (a window of 1000 steps, an overflow that it forgives).
local function check_scale(c, name, settings)
  if not c.fp16 then return end
  local scale = at(settings, "fp16.loss_scale")
  if scale ~= nil and scale ~= 0 and scale ~= "auto" then
    config.fail("deepspeed: ", name, ": fp16.loss_scale is ", show(scale), ": a fixed scale is "
      .. "not supported; wanted 0, which lets it grow and shrink")
  end
  c.notes[#c.notes + 1] = "deepspeed: the loss scale of fp16 begins at 65536, and grows and "
    .. "shrinks by torch.amp.GradScaler's rule, whatever the file says of it"
end

-- What no key here can say: path, the values that ask for nothing, what to use instead.
local unknown = {
  { "zero_optimization.zero_hpz_partition_size", { [0] = true, [1] = true },
    "a second copy of the weights in each node is not supported; zero_group: node parts all "
    .. "states in a node" },
  { "zero_optimization.zero_quantized_weights", { [false] = true },
    "weights travel as they are computed with" },
  { "zero_optimization.zero_quantized_gradients", { [false] = true }, "gradients travel in fp32" },
  { "tensor_parallel.autotp_size", { [0] = true, [1] = true }, "tensor parallelism is not "
    .. "supported; sequence_parallel_size and zero_stage part what it would" },
}

-- Gives a key what the file says, unless the configuration says otherwise itself.
local function set(c, name, path, shown, key, value)
  local given = c.given[key]
  if given ~= nil and given ~= system.null and c[key] ~= value then
    config.fail("deepspeed: ", name, ": ", path, " is ", show(shown), ", but ", key, " is ",
      show(c[key]), "; wanted the same, or one of them alone")
  end
  c[key] = value
end

-- offload_optimizer's and offload_param's device: nil, "cpu" or "nvme".
local function device(name, settings, what)
  local path = "zero_optimization." .. what .. ".device"
  local asked = at(settings, path)
  if asked == nil or asked == "none" then return nil end
  if asked ~= "cpu" and asked ~= "nvme" then
    config.fail("deepspeed: ", name, ": ", path, ": wanted none, cpu or nvme, got ", show(asked))
  end
  return asked
end

local function set_offload(c, name, settings, stage)
  local optimizer, parameters = device(name, settings, "offload_optimizer"),
    device(name, settings, "offload_param")
  if optimizer then
    set(c, name, "zero_optimization.offload_optimizer.device", optimizer, "offload_optimizer",
      optimizer == "nvme" and "disk" or "cpu")
    local path = optimizer == "nvme" and at(settings,
      "zero_optimization.offload_optimizer.nvme_path")
    if path then
      set(c, name, "zero_optimization.offload_optimizer.nvme_path", path, "offload_dir", path)
    end
  end
  if not parameters then return end
  if parameters == "nvme" then
    config.fail("deepspeed: ", name, ": zero_optimization.offload_param: weights on a disk are "
      .. "not supported; wanted cpu or none")
  end
  if stage < 3 or not optimizer then
    config.fail("deepspeed: ", name, ": zero_optimization.offload_param: the shards of the "
      .. "weights lie where the optimizer's are: wanted stage 3 and offload_optimizer beside it")
  end
  set(c, name, "zero_optimization.offload_param.device", parameters, "offload_weights", "cpu")
end

-- MiCS parts the states in groups of so many neighbouring ranks.
local function set_group(c, name, settings)
  local size = at(settings, "zero_optimization.mics_shard_size")
  if size == nil or size == -1 then return end
  local group = size == c.sequence_parallel_size and "sp" or size == machine.local_ranks()
    and "node" or nil
  if not group then
    config.fail("deepspeed: ", name, ": zero_optimization.mics_shard_size is ", show(size),
      ": wanted sequence_parallel_size (", c.sequence_parallel_size,
      ") or the ranks of a machine (LOCAL_WORLD_SIZE: ",
      machine.local_ranks() or "not set", ")")
  end
  set(c, name, "zero_optimization.mics_shard_size", size, "zero_group", group)
end

--- Sets zero_stage, zero_group, offload_optimizer and offload_dir as `c.deepspeed` asks for.
--- Refuses a file that cannot be read, settings that are neither "auto" nor what the configuration
--- says (batch, clipping, rate, precision, these keys), and what it asks for that there is not.
---@param c moonring.Configuration
function deepspeed.apply(c)
  if not c.deepspeed then return end
  local inline = type(c.deepspeed) == "table"
  if not inline and type(c.deepspeed) ~= "string" then
    config.fail("deepspeed: wanted a file or an object of settings, got ", show(c.deepspeed))
  end
  local name = inline and "the settings" or c.deepspeed
  local settings = inline and c.deepspeed or system.json_decode(system.read(c.deepspeed),
    c.deepspeed)
  if type(settings) ~= "table" or #settings > 0 then
    config.fail("deepspeed: ", name, ": wanted an object of settings, got ", show(settings))
  end
  check(name, settings, "train_micro_batch_size_per_gpu", "per_device_train_batch_size",
    c.per_device_train_batch_size)
  check(name, settings, "gradient_accumulation_steps", "gradient_accumulation_steps",
    c.gradient_accumulation_steps)
  check(name, settings, "gradient_clipping", "max_grad_norm", c.max_grad_norm)
  check(name, settings, "optimizer.params.lr", "learning_rate", c.learning_rate)
  check(name, settings, "optimizer.params.weight_decay", "weight_decay", c.weight_decay)
  check(name, settings, "optimizer.params.eps", "adam_epsilon", c.adam_epsilon)
  check(name, settings, "optimizer.params.betas", "adam_beta1 and adam_beta2",
    { c.adam_beta1, c.adam_beta2 })
  check(name, settings, "bf16.enabled", "bf16", c.bf16 or c.pure_bf16)
  check(name, settings, "fp16.enabled", "fp16", c.fp16 or false)
  check_scale(c, name, settings)
  for _, each in ipairs(unknown) do
    local asked = at(settings, each[1])
    if asked ~= nil and asked ~= "auto" and not each[2][asked] then
      config.fail("deepspeed: ", name, ": ", each[1], " is ", show(asked), ": ", each[3])
    end
  end
  local stage = at(settings, "zero_optimization.stage") or 0
  if not (stage == 0 or stage == 1 or stage == 2 or stage == 3) then
    config.fail("deepspeed: ", name, ": zero_optimization.stage: wanted 0, 1, 2 or 3, got ",
      show(stage))
  end
  set(c, name, "zero_optimization.stage", stage, "zero_stage", stage)
  set_group(c, name, settings)
  set_offload(c, name, settings, stage)
end

return deepspeed
