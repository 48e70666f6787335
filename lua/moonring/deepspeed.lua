--- DeepSpeed's JSON file, as far as it bears on a run: its ZeRO stage and offload are read and named (states are not sharded yet: each rank holds
-- all of them, and the numbers are the same); what it says of batches, clipping, rates and precision must be "auto" or agree with the configuration.
local config = require "moonring.config"
local system = require "moonring.native.system"

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
  if type(a) == "table" then return type(b) == "table" and #a == #b and same(a[1], b[1]) and same(a[2], b[2]) end
  return a == b or (tonumber(a) ~= nil and tonumber(a) == tonumber(b))
end

local function show(value) return type(value) == "table" and system.json_encode(value) or tostring(value) end

-- Refuses a setting that is neither "auto" nor the key's own value.
local function check(name, settings, path, key, value)
  local asked = at(settings, path)
  if asked == nil or asked == "auto" or same(asked, value) then return end
  config.fail("deepspeed: ", name, ": ", path, " is ", show(asked), ", but ", key, " is ", show(value), '; wanted "auto" or the same')
end

local function offloads(settings, what)
  local device = at(settings, "zero_optimization." .. what .. ".device")
  return device and device ~= "none" and device or nil
end

--- A line that says what was read and is not built yet, or nil where the file asks for nothing of it. Refuses what contradicts the configuration.
function deepspeed.note(c)
  if not c.deepspeed then return nil end
  local inline = type(c.deepspeed) == "table"
  local name = inline and "the settings" or c.deepspeed
  local settings = inline and c.deepspeed or system.json_decode(system.read(c.deepspeed), c.deepspeed)
  if type(settings) ~= "table" or #settings > 0 then config.fail("deepspeed: ", name, ": wanted an object of settings, got ", show(settings)) end
  check(name, settings, "train_micro_batch_size_per_gpu", "per_device_train_batch_size", c.per_device_train_batch_size)
  check(name, settings, "gradient_accumulation_steps", "gradient_accumulation_steps", c.gradient_accumulation_steps)
  check(name, settings, "gradient_clipping", "max_grad_norm", c.max_grad_norm)
  check(name, settings, "optimizer.params.lr", "learning_rate", c.learning_rate)
  check(name, settings, "optimizer.params.weight_decay", "weight_decay", c.weight_decay)
  check(name, settings, "optimizer.params.eps", "adam_epsilon", c.adam_epsilon)
  check(name, settings, "optimizer.params.betas", "adam_beta1 and adam_beta2", { c.adam_beta1, c.adam_beta2 })
  check(name, settings, "bf16.enabled", "bf16", c.bf16 or c.pure_bf16)
  check(name, settings, "fp16.enabled", "fp16", c.fp16 or false)
  local stage = at(settings, "zero_optimization.stage") or 0
  if not (stage == 0 or stage == 1 or stage == 2 or stage == 3) then config.fail("deepspeed: ", name, ": zero_optimization.stage: wanted 0, 1, 2 or 3, got ", show(stage)) end
  local asks = {}
  if stage > 0 then asks[1] = "ZeRO stage " .. stage end
  for _, each in ipairs { { "offload_optimizer", "optimizer" }, { "offload_param", "parameters" } } do
    local device = offloads(settings, each[1])
    if device then asks[#asks + 1] = each[2] .. " on " .. show(device) end
  end
  if #asks == 0 then return nil end
  return ("deepspeed: %s asks for %s: not built yet, each rank holds everything; the numbers are the same"):format(name, table.concat(asks, ", "))
end

return deepspeed
