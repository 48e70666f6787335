--- Memory of a process before training begins.
local coefficients = require "moonring.plan.coefficients"

---@class moonring.process_bytes
local process_bytes = {}

local GPU_WORDS = { { "context", "CUDA's context, outside of the allocator" },
  { "cublas", "cuBLAS's workspace" }, { "nccl", "NCCL's buffers, outside of the allocator" },
  { "pages", "pages of the allocator that are filled in part" } }

--- The number of NCCL groups with 2 or more ranks that a rank is in; each has buffers. Groups: the
--- world; the sp and the dp group (comm/mesh.h); two more for each other division of states or
--- experts (Mesh::CutWorld); one more dp group with local_steps.
---@param f moonring.MemoryFacts
---@return integer
function process_bytes.groups(f)
  local world = f.ranks or 1
  if world == 1 then return 0 end
  local count = 1 + (f.sp > 1 and 1 or 0) + (f.sp < world and 1 or 0)
  local states = (f.zero_stage or 0) > 0 and f.zero_ranks or 1
  for _, size in ipairs { states, f.expert_ranks or 1 } do
    if size > 1 and size < world and size ~= f.sp then count = count + 2 end
  end
  if f.local_steps and f.sp < world then count = count + 1 end
  return count
end

--- Lists the memory of a GPU that is not in tensors: CUDA's context, workspaces and buffers of its
--- libraries. Empty on a CPU.
---@param f moonring.MemoryFacts
---@return { bytes: number, words: string }[]
function process_bytes.fixed(f)
  if f.device ~= "cuda" or f.base then return {} end
  local c = coefficients.gpu
  local counts = { context = f.context_is_there and 0 or 1, cublas = 1,
    nccl = process_bytes.groups(f), pages = 1 }
  local list = {}
  for _, row in ipairs(GPU_WORDS) do
    if counts[row[1]] > 0 then
      list[#list + 1] = { bytes = counts[row[1]] * c[row[1]], words = row[2] }
    end
  end
  return list
end

--- Bytes of the tokenizer in a process on a CPU. 0 if `f.base`, the measured memory of a process,
--- is known, since that includes it.
---@param f moonring.MemoryFacts
---@return number
function process_bytes.tokenizer(f)
  return f.device == "cpu" and not f.base and coefficients.tokenizer * f.model.vocab or 0
end

--- Bytes of file pages of the program and its libraries; 0 on a GPU. The system counts them as
--- memory of the process, the prediction does not.
---@param f moonring.MemoryFacts
---@return number
function process_bytes.libraries(f)
  return f.device == "cpu" and coefficients.libraries or 0
end

--- Bytes of a process before training. On a GPU this is the sum of `fixed`.
---@param f moonring.MemoryFacts
---@return number
function process_bytes.base(f)
  if f.base then return f.base end
  if f.device ~= "cuda" then return coefficients.base[f.device] + process_bytes.tokenizer(f) end
  local bytes = 0
  for _, each in ipairs(process_bytes.fixed(f)) do bytes = bytes + each.bytes end
  return bytes
end

return process_bytes
