--- How a run computes, out of its configuration: device, ranks, precision, what backward makes
-- again, determinism.
local comm = require "moonring.native.comm"
local errors = require "moonring.base.errors"
local model = require "moonring.native.model"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.compute
local compute = {}

--- "fp32", or what the keys bf16, pure_bf16, fp16 and fp64 say, which exclude one another.
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

--- In what matrices that learn are held for their products, beside fp32 masters; nil: as they are.
---@param c moonring.Configuration
---@return "bf16" | "fp16" | nil
function compute.held(c)
  local precision = compute.precision(c)
  return (precision == "bf16" or precision == "fp16") and precision or nil
end

--- What backward makes again. With recompute: auto this is what layers do that have no room to keep
--- more (moonring.recompute).
---@param c moonring.Configuration
---@return "block" | "selective" | "none"
function compute.recompute(c)
  if c.disable_gradient_checkpointing then return "none" end
  return c.recompute == "auto" and "block" or c.recompute
end

--- What --device or use_cpu asks for, else what is there.
---@param c moonring.Configuration
---@return "cpu" | "cuda"
function compute.device(c)
  local asked = system.requested_device()
  if c.use_cpu and asked == "cuda" then
    errors.fail "use_cpu and --device cuda exclude one another"
  end
  return model.device(c.use_cpu and "cpu" or asked)
end

--- Where blocks' inputs wait for their backward on a device. Ends the run where activation_offload
--- asks for what cannot be.
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@return "memory" | "host" | "disk" place
---@return string? idle a line for a log where the key moves nothing
function compute.activation_place(c, device)
  local ok, place = pcall(model.activation_place, c.activation_offload, device)
  if not ok then errors.fail(errors.words(place)) end
  local idle = c.activation_offload and place == "memory"
  return place, idle and "activation_offload: cpu moves nothing on the CPU, where blocks' inputs "
    .. "are in the host's memory anyway; disk would put them into files" or nil
end

--- Settles full_determinism for this process, before anything is computed on the device.
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@return string? line for a log where it is asked for
function compute.determinism(c, device)
  trainer.deterministic(c.full_determinism and device ~= "cpu")
  if not c.full_determinism then return nil end
  return device == "cpu"
    and "full_determinism changes nothing: on the CPU runs repeat bit for bit anyway"
    or "full_determinism: kernels that give the same bits each time; attention's backward takes "
      .. "more time for it"
end

--- Whether ranks hold the weights together (zero_stage 3, experts over ranks): then all of them
--- make each forward.
---@param c moonring.Configuration
---@return boolean
function compute.holds_together(c) return c.zero_stage == 3 or c.expert_parallel_size > 1 end

--- The fewest ranks that sequence_parallel_size and expert_parallel_size both divide.
---@param c moonring.Configuration
---@return integer
function compute.least_ranks(c)
  local sp, experts = c.sequence_parallel_size, c.expert_parallel_size
  local ranks = sp
  while sp >= 1 and ranks % experts ~= 0 do ranks = ranks + sp end
  return ranks
end

--- How many ranks to start where nobody says: the fewest that there can be on the CPU, on GPUs the
--- largest multiple of them that they allow.
---@param c moonring.Configuration
---@return integer
function compute.ranks(c)
  local least = compute.least_ranks(c)
  if least < 1 or compute.device(c) == "cpu" then return least end
  return math.max(1, math.floor(model.gpus() / least)) * least
end

--- The ranks of the run on the axes dp and sp. Collective over all ranks.
---@param c moonring.Configuration
---@return moonring.Mesh
function compute.mesh(c)
  return comm.mesh { sp = c.sequence_parallel_size, deadline = c.ddp_timeout,
    device = compute.device(c) }
end

return compute
