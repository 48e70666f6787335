--- What a process takes for itself before training begins.
local coefficients = require "moonring.plan.coefficients"

---@class moonring.process_bytes
local process_bytes = {}

local GPU_WORDS = { { "context", "CUDA's context, outside of the allocator" },
  { "cublas", "cuBLAS's workspace" }, { "nccl", "NCCL's buffers, outside of the allocator" },
  { "pages", "pages of the allocator that are filled in part" } }

--- What a GPU takes for itself: CUDA's context, workspaces and buffers of its libraries; nothing on
--- a CPU.
---@param f moonring.MemoryFacts
---@return { bytes: number, words: string }[]
function process_bytes.fixed(f)
  if f.device ~= "cuda" or f.base then return {} end
  local c = coefficients.gpu
  local counts = { context = f.context_is_there and 0 or 1, cublas = 1, nccl = (f.ranks or 1) == 1
    and 0 or f.sp > 1 and 2 or 1, pages = 1 }
  local list = {}
  for _, row in ipairs(GPU_WORDS) do
    if counts[row[1]] > 0 then
      list[#list + 1] = { bytes = counts[row[1]] * c[row[1]], words = row[2] }
    end
  end
  return list
end

--- Bytes of a process that has not begun: on a GPU the sum of what is fixed.
---@param f moonring.MemoryFacts
---@return number
function process_bytes.base(f)
  if f.base or f.device ~= "cuda" then return f.base or coefficients.base[f.device] end
  local bytes = 0
  for _, each in ipairs(process_bytes.fixed(f)) do bytes = bytes + each.bytes end
  return bytes
end

return process_bytes
