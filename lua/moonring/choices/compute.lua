--- Settings of computation, derived from the configuration: device, number of ranks, precision,
-- recomputation, determinism.
local comm = require "moonring.native.comm"
local errors = require "moonring.base.errors"
local model = require "moonring.native.model"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.compute
local compute = {}

--- The precision set by one of the keys bf16, pure_bf16, fp16 and fp64, which exclude one another;
--- "fp32" if none is set.
---@param c moonring.Configuration
---@return "fp32" | "bf16" | "fp16" | "pure_bf16" | "fp64"
function compute.precision(c)
  local chosen = {}
  for _, name in ipairs { "bf16", "pure_bf16", "fp16", "fp64" } do
    if c[name] then chosen[#chosen + 1] = name end
  end
  if #chosen > 1 then errors.fail(table.concat(chosen, " and "), " exclude one another") end
  return chosen[1] or "fp32"
end

--- The dtype of the copies of trainable matrices that matmuls use, beside the fp32 master weights;
--- nil: there are no copies.
---@param c moonring.Configuration
---@return "bf16" | "fp16" | nil
function compute.held(c)
  local precision = compute.precision(c)
  return (precision == "bf16" or precision == "fp16") and precision or nil
end

--- The mode that says what the backward recomputes. With recompute: auto some layers keep their
--- activations (plan/recompute.lua); the returned mode is that of the other layers.
---@param c moonring.Configuration
---@return "block" | "selective" | "none"
function compute.recompute(c)
  if c.disable_gradient_checkpointing then return "none" end
  return c.recompute == "auto" and "block" or c.recompute
end

--- The device set by --device or use_cpu; otherwise the one available.
---@param c moonring.Configuration
---@return "cpu" | "cuda"
function compute.device(c)
  local asked = system.requested_device()
  if c.use_cpu and asked == "cuda" then
    errors.fail "use_cpu and --device cuda exclude one another"
  end
  return model.device(c.use_cpu and "cpu" or asked)
end

--- The place where inputs of blocks are stored until the backward. Fails if the device does not
--- support activation_offload.
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@return "memory" | "host" | "disk" place
---@return string? idle a line for the log if the key has no effect
function compute.activation_place(c, device)
  local ok, place = pcall(model.activation_place, c.activation_offload, device)
  if not ok then errors.fail(errors.words(place)) end
  local idle = c.activation_offload and place == "memory"
  return place, idle and "activation_offload: cpu moves nothing on the CPU, where blocks' inputs "
    .. "are in the host's memory anyway; disk would put them into files" or nil
end

--- Applies full_determinism to this process. Call it before any computation on the device.
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@return string? line for the log if the key is set
function compute.determinism(c, device)
  trainer.deterministic(c.full_determinism and device ~= "cpu")
  if not c.full_determinism then return nil end
  return device == "cpu"
    and "full_determinism changes nothing: on the CPU runs repeat bit for bit anyway"
    or "full_determinism: deterministic kernels, with a slower backward of attention"
end

--- Whether weights are sharded over ranks (zero_stage 3, expert parallelism). Then all ranks must
--- take part in each forward.
---@param c moonring.Configuration
---@return boolean
function compute.holds_together(c) return c.zero_stage == 3 or c.expert_parallel_size > 1 end

--- The smallest number of ranks divisible by sequence_parallel_size and expert_parallel_size.
---@param c moonring.Configuration
---@return integer
function compute.least_ranks(c)
  local sp, experts = c.sequence_parallel_size, c.expert_parallel_size
  local ranks = sp
  while sp >= 1 and ranks % experts ~= 0 do ranks = ranks + sp end
  return ranks
end

--- The default number of ranks: on GPUs the largest multiple of the smallest allowed number that
--- does not exceed the number of GPUs; on the CPU, and in a runtime that starts no ranks, the
--- smallest allowed number.
---@param c moonring.Configuration
---@return integer
function compute.ranks(c)
  local least = compute.least_ranks(c)
  if least < 1 or not system.starts_ranks() or compute.device(c) == "cpu" then return least end
  return math.max(1, math.floor(model.gpus() / least)) * least
end

--- The mesh of all ranks, with axes dp and sp. Collective over all ranks.
---@param c moonring.Configuration
---@return moonring.Mesh
function compute.mesh(c)
  return comm.mesh { sp = c.sequence_parallel_size, deadline = c.ddp_timeout,
    device = compute.device(c) }
end

return compute
