--- Measures that reduce memory, as keys of a configuration.

local expert_share = require "moonring.plan.expert_share"

---@class moonring.measures
local measures = {}

---@class moonring.Measure
---@field changes table<string, any> changed facts; a fact of a key has the key's name
---@field keys string[] the changed keys, each as "name: value"
---@field short string the changes in a few words

-- Keys that measures change, in display order.
local KEYS = { "micro_batch_tokens", "recompute", "zero_stage", "activation_offload",
  "offload_optimizer", "offload_weights" }

-- Describes changes in a few words, for a table column.
local function shortened(changes)
  local words = { changes.micro_batch_tokens and "single examples" or nil }
  if changes.recompute then words[#words + 1] = "recompute block" end
  if changes.zero_stage then words[#words + 1] = "zero " .. changes.zero_stage end
  if changes.activation_offload then
    words[#words + 1] = "activations on " .. changes.activation_offload
  end
  if changes.offload_optimizer then
    words[#words + 1] = "optimizer on " .. changes.offload_optimizer
  end
  if changes.offload_weights then words[#words + 1] = "weights on cpu" end
  return #words > 0 and table.concat(words, ", ") or "as configured"
end

--- Lists the measures that reduce memory. The first one changes nothing; the others follow with the
--- least impact first.
---@param f moonring.MemoryFacts
---@return moonring.Measure[]
function measures.of(f)
  local away = f.device == "cpu" and "disk" or "cpu"
  local list, seen = {}, {}
  local function add(changes)
    if #list > 0 and f.tokens > f.alone then
      changes.micro_batch_tokens, changes.tokens, changes.micro_batches = f.alone, f.alone,
        math.ceil(f.step / f.alone)
    end
    if #list > 0 and f.recompute == "none" then changes.recompute = "block" end
    local keys = {}
    for _, name in ipairs(KEYS) do
      if changes[name] == f[name] then changes[name] = nil end
      if changes[name] ~= nil then keys[#keys + 1] = name .. ": " .. changes[name] end
    end
    local text = table.concat(keys, ", ")
    if not seen[text] then
      list[#list + 1] = { changes = changes, keys = keys, short = shortened(changes) }
    end
    seen[text] = true
  end
  local most = f.zero_ranks > 1 and 3 or nil
  local activations, optimizer = f.activation_offload or away, f.offload_optimizer or away
  add {}
  add {}
  add { recompute = "block" }
  for stage = f.zero_stage + 1, most or 0 do add { zero_stage = stage } end
  add { activation_offload = activations }
  add { zero_stage = most, activation_offload = activations }
  if expert_share.ranks(f) > 1 then return list end -- states of shared experts cannot be offloaded
  add { zero_stage = most, activation_offload = activations, offload_optimizer = optimizer }
  local stage = most or f.zero_stage
  if f.device == "cuda" and (stage == 0 or stage == 3) then
    add { zero_stage = most, activation_offload = activations, offload_optimizer = optimizer,
      offload_weights = "cpu" }
  end
  return list
end

return measures
