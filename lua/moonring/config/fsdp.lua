--- Reads PyTorch FSDP's settings in the form of Transformers and accelerate (keys fsdp and
-- fsdp_config). The sharding strategy sets zero_stage and zero_group; offload sets
-- offload_optimizer and offload_weights. Other settings that would change results are refused. A
-- note lists those that have no effect. fsdp_config may be a whole accelerate file, whose section
-- fsdp_config is then used.
local engine_settings = require "moonring.config.engine_settings"
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.fsdp
local fsdp = {}

-- The keys that each word of `fsdp`, or each sharding strategy, sets.
local SHARDED = {
  full_shard = { zero_stage = 3 },
  shard_grad_op = { zero_stage = 2 },
  no_shard = { zero_stage = 0 },
  hybrid_shard = { zero_stage = 3, zero_group = "node" },
  hybrid_shard_zero2 = { zero_stage = 2, zero_group = "node" },
}
local NUMBERED = { "full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2" }
local WORDS = "full_shard, shard_grad_op, no_shard, hybrid_shard or hybrid_shard_zero2, with "
  .. "offload and auto_wrap beside it"

local LAUNCHED = { why = "moonring -n, torchrun and Slurm start the ranks", defaults = {
    num_machines = 1, machine_rank = 0, same_network = true, rdzv_backend = "static",
    main_training_function = "main", compute_environment = "LOCAL_MACHINE", debug = false,
    enable_cpu_affinity = false, downcast_bf16 = "no",
  }, sections = { "num_processes", "main_process_ip", "main_process_port", "tpu_env",
    "tpu_use_cluster", "tpu_use_sudo", "tpu_name", "tpu_zone", "dynamo_config", "kt_config" } }

-- Settings without effect, with the reasons. Their names may also begin with fsdp_.
local IDLE = {
  { "sharding is always by the model's blocks", { "auto_wrap_policy", "min_num_params",
    "transformer_layer_cls_to_wrap", "ignored_modules" } },
  { "blocks are gathered one ahead and freed after use; results are the same",
    { "backward_prefetch", "backward_prefetch_policy", "forward_prefetch", "limit_all_gathers",
      "use_orig_params" } },
  { "each rank reads only its shards of the weights", { "cpu_ram_efficient_loading",
    "sync_module_states" } },
  { "saved models are always whole, and checkpoints have a format of their own",
    { "state_dict_type" } },
  { "set recompute instead", { "activation_checkpointing" } },
}

-- The words in the key `fsdp`, as a list; empty if FSDP is off.
local function words_of(asked)
  local words = {}
  for key, each in pairs(type(asked) == "table" and asked or {}) do
    if type(key) ~= "number" or type(each) == "table" then
      errors.fail("fsdp: expected ", WORDS, ", got ", system.json_encode(asked))
    end
  end
  local list = type(asked) == "table" and table.concat(asked, " ") or tostring(asked or "")
  for word in list:lower():gmatch "[^%s,]+" do
    if word == "true" then word = "full_shard" end
    if word ~= "false" then words[#words + 1] = word end
  end
  return words
end

-- Parses `fsdp`: returns the word that names the sharding strategy, and whether offload is
-- requested.
local function wish_of(asked)
  local words, sharded, offload = words_of(asked), nil, false
  for _, word in ipairs(words) do
    local is_one = SHARDED[word] ~= nil and (sharded or word) == word
    if not is_one and word ~= "offload" and word ~= "auto_wrap" then
      errors.fail("fsdp: expected ", WORDS, ", got ", table.concat(words, " "))
    end
    sharded, offload = is_one and word or sharded, offload or word == "offload"
  end
  if #words > 0 and not sharded then
    errors.fail("fsdp: ", table.concat(words, " "), " says nothing of what is sharded; expected ",
      WORDS)
  end
  return sharded, offload
end

-- The value of a setting named `name` or fsdp_`name`, and its path.
local function setting(s, prefix, name)
  for _, path in ipairs { prefix .. name, prefix .. "fsdp_" .. name } do
    local value = s:at(path)
    if value ~= nil then return value, path end
  end
end

-- The sharding strategy, and the path of its setting. FSDP version 2 has only
-- reshard_after_forward; in older files the value of that setting is the strategy's name.
local function strategy_of(s, prefix)
  setting(s, prefix, "version")
  local asked, path = setting(s, prefix, "sharding_strategy")
  local again, again_path = setting(s, prefix, "reshard_after_forward")
  if type(again) == "boolean" then
    asked, path = again and "full_shard" or "shard_grad_op", again_path
  elseif asked == nil then
    asked, path = again, again_path
  end
  if asked == nil then return nil end
  local name = NUMBERED[tonumber(asked) or 0] or tostring(asked):lower()
  if SHARDED[name] then return name, path end
  s:fail(path, ": expected FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or "
    .. "HYBRID_SHARD_ZERO2, got ", asked)
end

-- Checks the other fields of an accelerate file, next to its section fsdp_config.
local function check_file(s)
  local kind = s:at "distributed_type"
  if kind ~= nil and kind ~= "FSDP" then
    s:fail("distributed_type is ", kind, ": expected FSDP; deepspeed names DeepSpeed's file")
  end
  local precision, c = s:at "mixed_precision", s.c
  local has = { bf16 = c.bf16 or c.pure_bf16, fp16 = c.fp16, no = true }
  if precision ~= nil and not has[tostring(precision)] and precision ~= false then
    s:fail("mixed_precision is ", precision, ": expected ", has[precision] == nil
      and "bf16, fp16 or no" or tostring(precision) .. ": true beside it")
  end
  if s:at "use_cpu" == true and not c.use_cpu then
    s:fail "use_cpu is true: expected use_cpu: true beside it"
  end
  s:refuse("kt_config.enabled", { [false] = true }, "experts are computed by Moonring itself")
end

-- Reads fsdp_config. Returns the sharding strategy, the path of its setting, and whether parameters
-- are offloaded.
local function read(s)
  local prefix = ""
  if s:at "fsdp_config" then
    prefix = "fsdp_config."
    check_file(s)
  end
  local sharded, path = strategy_of(s, prefix)
  local offload = setting(s, prefix, "offload_params")
  for _, name in ipairs { "xla", "xla_fsdp_v2" } do
    s:refuse(prefix .. name, { [false] = true }, "there are no TPUs")
  end
  for _, name in ipairs { "mixed_precision_policy", "fsdp_mixed_precision_policy" } do
    s:refuse(prefix .. name, { [""] = true }, "set bf16, fp16 or pure_bf16 instead")
  end
  local groups = { prefix ~= "" and LAUNCHED or nil }
  for _, each in ipairs(IDLE) do
    local sections = {}
    for _, name in ipairs(each[2]) do
      sections[#sections + 1] = prefix .. name
      sections[#sections + 1] = prefix .. "fsdp_" .. name
    end
    groups[#groups + 1] = { why = each[1], sections = sections }
  end
  s:rest(groups)
  return sharded, path, offload
end

--- Sets zero_stage, zero_group, offload_optimizer and offload_weights from `c.fsdp` and
--- `c.fsdp_config`. Fails for unsupported settings, for contradictions to each other or to the
--- configuration, and if deepspeed is set too.
---@param c moonring.Configuration
function fsdp.apply(c)
  local sharded, offload = wish_of(c.fsdp)
  local s, said = engine_settings.open(c, "fsdp_config"), "fsdp: " .. tostring(sharded)
  if not sharded and not s then return end
  if c.deepspeed then
    errors.fail((sharded and "fsdp" or "fsdp_config"), " and deepspeed exclude one another")
  end
  if s then
    local named, path, more = read(s)
    -- Transformers' `fsdp` only enables FSDP version 2; its word does not select the strategy.
    if named and sharded and named ~= sharded and not path:find "reshard_after_forward$" then
      s:fail(path, " is ", s:at(path), ", but fsdp is ", sharded, "; expected the same")
    end
    if not sharded then said = "fsdp_config: " .. s.name end
    sharded, offload = named or sharded or "full_shard", offload or more == true
  end
  local wished = { offload_optimizer = offload and "cpu" or nil }
  for key, value in pairs(SHARDED[sharded]) do wished[key] = value end
  wished.offload_weights = offload and wished.zero_stage == 3 and "cpu" or nil
  for key, value in pairs(wished) do
    engine_settings.give(c, ("%s asks for %s: %s"):format(said, key, value), key, value)
  end
end

return fsdp
