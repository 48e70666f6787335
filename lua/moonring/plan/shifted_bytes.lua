--- Memory of one layer's shifted attention (shift_attn). It runs over two halves of the heads, one
-- after the other, each in groups of a quarter of a document
-- (attention/strategy/shifted_attention.h). The results have the fields of attention_bytes.lua.
local attention = require "moonring.native.attention"
local attention_bytes = require "moonring.plan.attention_bytes"

---@class moonring.shifted_bytes
local shifted_bytes = {}

-- The most keys before a run of queries that belong to the run's group. The maximum is over all
-- ranks' runs, which have equal lengths; groups begin at `from`. A group that wraps around the end
-- of the document counts like the others.
local function reach(f, group, from)
  local runs, most = f.contexts * (f.contiguous and 1 or 2), 0
  for run = 0, runs - 1 do most = math.max(most, (run * f.tokens / runs - from) % group) end
  return most
end

-- The facts of each half that has heads. The second half's groups are shifted; it is the only one
-- if there is a single head.
local function halves(f)
  local group, list = f.tokens / 4, {}
  local calls = attention.split_heads { heads = f.heads, kv_heads = f.kv_heads, shifted = true }
  for i, half in ipairs(calls) do
    local from = i == #calls and group / 2 or 0
    list[i] = setmetatable({ heads = half.heads, kv_heads = half.kv_heads,
      window = math.floor(reach(f, group, from)) + 1 }, { __index = f })
  end
  return list
end

--- Peak bytes of a rank while one layer runs backward, the second half of the heads first. The
--- output exists in addition to what the halves keep of it. At the end, when nothing is being sent,
--- the gradients of the queries exist both by halves and joined.
---@param f moonring.AttentionFacts
---@return moonring.AttentionBytes
function shifted_bytes.memory(f)
  local v = f.value_dim or f.head_dim
  local rows = f.tokens / f.sp * f.element_bytes
  local out, queries = rows * f.heads * v, rows * f.heads * f.head_dim
  local gradients = queries + rows * f.kv_heads * (f.head_dim + v) -- and inputs
  local all = { kept = 0, exchanged = 0, kernel = 0, given = out, gradient = out }
  local most, sent, done = gradients + queries, 0, 0
  local list = halves(f)
  for h = #list, 1, -1 do
    local half = list[h]
    local of = attention_bytes.memory(half)
    for _, name in ipairs { "kept", "exchanged" } do all[name] = all[name] + of[name] end
    all.kernel = math.max(all.kernel, of.kernel)
    -- During the second half, what the first keeps also stays; it has the same size, or less.
    local waits = h > 1 and 2 * of.kept or of.kept
    local own, travels = done + waits + of.attention - of.waiting, of.communication - of.exchanged
    if own + travels > most + sent then most, sent = own, travels end
    done = done + rows * (half.heads * f.head_dim + half.kv_heads * (f.head_dim + v))
  end
  all.waiting = gradients + 2 * out + all.kept
  all.attention = math.max(all.waiting, gradients + 2 * out + most)
  all.communication = all.exchanged + sent
  return all
end

return shifted_bytes
