--- The keys of `moonring serve`: its own, and those of train that act on a service. Fields of a
-- row: config/keys/init.lua.
local null = require("moonring.native.system").null

--- `own`: the keys that only this command has. `acting`: the keys of train that act on a service;
--- what other keys set comes with each request, or belongs to a training. `refused`: keys of train
--- that would change results, or that a service has not, and why they are refused.
---@class moonring.serve.keys
---@field own moonring.KeyRow[]
---@field acting string[]
---@field refused table<string, string> the reason by key
local keys = {}

keys.own = {
  { "port", "int", 8000, "port to listen on; 0: any free one, which is printed", least = 0,
    most = 65535 },
  { "host", "string", "127.0.0.1", "address to listen on. Other addresses than 127.0.0.1 can be "
    .. "reached from other machines, without encryption: put a proxy with TLS in front" },
  { "api_key", "string", null, "the key that clients must send, beginning with tml-. Absent: one "
    .. "is made, printed, and kept in output_dir/serve/api_key", secret = true },
  { "base_models", "list", null, "further names of models, as NAME=FOLDER; clients may give NAME "
    .. "as base_model or model. Each folder is opened when it is first asked for" },
}

keys.acting = { "adapter_name_or_path", "add_special_tokens", "add_tokens", "attention_kernels",
  "bf16", "cache_dir", "cpu_products", "cutoff_len", "ddp_timeout", "default_system",
  "disable_gradient_checkpointing",
  "double_quantization", "double_ring_window", "enable_thinking", "fp64", "full_determinism",
  "hf_hub_token", "infer_dtype", "init_special_tokens", "linear_attention_mode", "logit_rows",
  "max_restarts", "micro_batch_tokens", "model_name_or_path", "model_revision",
  "new_special_tokens_config", "output_dir", "placement", "pure_bf16", "quantization_bit",
  "quantization_method", "quantization_type", "recompute", "residual_dtype", "resize_vocab",
  "rollout_sequences", "rollout_spread_length", "rope_scaling", "seed",
  "sequence_parallel_mode", "sequence_parallel_ring_degree", "sequence_parallel_size",
  "sequence_parallel_ulysses_degree", "split_special_tokens", "template", "tile_mib", "tile_rows",
  "use_cpu" }

keys.refused = {
  activation_offload = "the service keeps the inputs of blocks in memory",
  expert_parallel_size = "the service keeps all experts on each rank",
  fp16 = "it needs a loss scale, which the gradients of several calls do not have in common; use "
    .. "bf16",
  offload_optimizer = "the service keeps the optimizer's states in memory",
  offload_weights = "the service keeps the weights in memory",
  shift_attn = "a sampler's attention is not shifted",
  zero_stage = "the service does not shard weights or states over ranks",
}

return keys
