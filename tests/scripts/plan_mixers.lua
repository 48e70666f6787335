--- AttentionPlan:delta and AttentionPlan:convolve over ranks, in fp64, compared with the recurrence
-- and the sum, which are written out here token by token. Prints the greatest difference of each
-- over all ranks.
--
--   moonring plan_mixers.lua sp=3 mode=spans
local moonring = require "moonring"
local opt = moonring.flags { sp = 1, mode = "auto" }
moonring.launch(opt.sp)
local mesh = moonring.comm.mesh { sp = opt.sp }
local attention = moonring.attention.create { mesh = mesh, mixing = opt.mode }

-- Two documents; one key head and two value heads of dimension one: channels q, k, v, v.
local LENGTHS, TAPS, BIAS, SCALE = { 150, 40 }, { { 0.3, 1 }, { -0.2, 0.8 }, { 0.5, 0.6 }, { 0.1,
  1.1 } }, { 0.2, -0.1, 0.4, 0 }, 0.7
local documents, x, g, beta, mixed, convolved = {}, {}, {}, {}, {}, {}
local function silu(z) return z / (1 + math.exp(-z)) end
for document, length in ipairs(LENGTHS) do
  local ids, states, before = {}, { 0, 0 }, { 0, 0, 0, 0 }
  for t = 1, length do
    ids[t] = 1
    local row, z, plain, out = {}, {}, {}, {}
    for c = 1, 4 do
      row[c] = math.sin(1.3 * t + 0.7 * c + document)
      z[c] = silu(TAPS[c][1] * before[c] + TAPS[c][2] * row[c])
      plain[c] = TAPS[c][1] * before[c] + TAPS[c][2] * row[c] + BIAS[c]
    end
    local decay, weight = {}, {}
    for h = 1, 2 do
      decay[h], weight[h] = -0.1 - 0.05 * math.sin(t + h), 0.5 + 0.3 * math.cos(0.9 * t + h)
      local state = states[h] * math.exp(decay[h])
      states[h] = state + weight[h] * (z[2 + h] - state * z[2]) * z[2]
      out[h] = { SCALE * states[h] * z[1] }
    end
    before = row
    x[#x + 1], g[#g + 1], beta[#beta + 1] = row, decay, weight
    mixed[#mixed + 1], convolved[#convolved + 1] = out, plain
  end
  documents[document] = ids
end

local _, _, _, plan, layout = attention:cut(moonring.comm.sequence { documents = documents })
local function own(values) return layout:cut(moonring.tensor(values, "fp64"), mesh:sp_rank()) end
local function tensor(values) return moonring.tensor(values, "fp64") end
local function difference(found, wanted)
  return mesh:max(found:numel() > 0 and (found - own(wanted)):abs():max():item() or 0)
end
local by_rule = difference(plan:delta(own(x), own(g), own(beta), { key_heads = 1, key_dim = 1,
  value_dim = 1, taps = tensor(TAPS), scale = SCALE }), mixed)
local by_taps = difference(plan:convolve(own(x), tensor(TAPS), { bias = tensor(BIAS) }), convolved)
if mesh:rank() == 0 then print(("%.17g %.17g"):format(by_rule, by_taps)) end
