--- Measures the core of one layer on one document, forward and backward: the gated delta rule with
-- a linear_attention_mode, or causal softmax attention with the same heads. Prints one JSON: the
-- best of `repeats` runs in seconds (of the slowest rank) and in CPU seconds (of all ranks), the
-- peak memory of a rank minus its memory before, the bytes that all ranks send, and the bytes that
-- moonring.mixing.cost predicts.
--
--   moonring [-n SP] delta_times.lua tokens=4096 sp=1 mode=auto kind=delta|softmax
local moonring = require "moonring"
local opt = moonring.flags { tokens = 4096, sp = 1, mode = "auto", kind = "delta", repeats = 3,
  key_heads = 4, value_heads = 8, dim = 64 }
moonring.launch(opt.sp)
local mesh = moonring.comm.mesh { sp = opt.sp }
local attention = moonring.attention.create { mesh = mesh, mixing = opt.mode }
local ids = {}
for i = 1, opt.tokens do ids[i] = 1 end
local sequence = moonring.comm.sequence { documents = { ids } }
local tokens, _, _, plan, layout = attention:cut(sequence)
local rows, H, K, d = tokens:size(0), opt.value_heads, opt.key_heads, opt.dim

local function leaf(...) return moonring.randn(...):requires_grad_() end
local inputs, forward
if opt.kind == "delta" then
  local x, beta = leaf(rows, (2 * K + H) * d), moonring.rand(rows, H):requires_grad_()
  local g = (-moonring.rand(rows, H)):detach():requires_grad_()
  inputs = { x, g, beta }
  function forward()
    return plan:delta(x, g, beta, { key_heads = K, key_dim = d, value_dim = d, scale = d ^ -0.5,
      normalize = true })
  end
else
  local q, k, v = leaf(rows, H, d), leaf(rows, K, d), leaf(rows, K, d)
  inputs = { q, k, v }
  function forward() return plan:forward(q, k, v, d ^ -0.5) end
end
local gradient = moonring.randn(rows, H, d)

-- Returns the peak or current memory of this process in bytes. The peak is since its last reset.
local function resident(field)
  for line in io.lines "/proc/self/status" do
    local kib = line:match("^" .. field .. ":%s*(%d+)")
    if kib then return tonumber(kib) * 1024 end
  end
end
local function forget_most()
  local file = assert(io.open("/proc/self/clear_refs", "w"))
  file:write "5"
  file:close()
end

local result = { seconds = math.huge, cpu_seconds = math.huge, peak_bytes = 0 }
for _ = 1, opt.repeats do
  moonring.trainer.release_memory()
  mesh:barrier()
  forget_most()
  local there = resident "VmRSS"
  local _, sent = mesh:traffic()
  local began, cpu = moonring.system.clock(), os.clock()
  moonring.scope(function() moonring.autograd.grad(forward(), inputs, { gradient = gradient }) end)
  local seconds, spent = moonring.system.clock() - began, os.clock() - cpu
  local _, after = mesh:traffic()
  result.peak_bytes = math.max(result.peak_bytes, mesh:max(resident "VmHWM" - there))
  result.seconds = math.min(result.seconds, mesh:max(seconds))
  result.cpu_seconds = math.min(result.cpu_seconds, mesh:sum(spent))
  result.bytes = mesh:sum(after - sent)
end
if opt.kind == "delta" and opt.sp > 1 then
  local cost = moonring.mixing.cost { layout = layout, mode = opt.mode, key_heads = K,
    value_heads = H, key_dim = d, value_dim = d }
  result.mode, result.counted = cost.mode, 0
  for _, rank in ipairs(cost) do
    result.counted = result.counted + rank.forward.bytes + rank.backward.bytes
  end
end
if mesh:rank() == 0 then print(moonring.system.json_encode(result)) end
