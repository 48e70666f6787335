--- Compares the longest sequences that other trainers published with our predictions: for their
-- settings, which tests the formulas, and for Moonring on the same GPUs.
local machine = require "moonring.base.machine"
local memory = require "moonring.plan.memory"
local memory_facts = require "moonring.plan.facts"
local plan = require "moonring.plan"
local published = require "moonring.plan.published"

---@class moonring.plan_tables
local plan_tables = {}

---@class moonring.TableRow
---@field theirs number tokens of an example, as published
---@field predicted number predicted by our formulas for their settings
---@field ours number predicted for Moonring on the same GPUs, by the strategy that reaches furthest
---@field offloading number the same as `ours`, with activation_offload
---@field strategy string the strategy with activation_offload
---@field host number bytes of a machine's memory that it needs

---@class moonring.PlanAway
---@field longest number tokens
---@field token number GPU bytes per token of a rank
---@field host number bytes of a machine's memory

local STEP = 1024

-- Facts of full fine-tuning on GPUs, sharded over all ranks if there are several, with the
-- optimizer's states on the host; some of them changed.
local function facts(row, sp, strategy, changes)
  local m = published.models[row.model]
  local f = { model = m, learns = { embedding = m.embedding, head = m.head, blocks = m.blocks },
    adapter = 0, depth = m.layers, tokens = STEP, documents = 1, ranks = row.ranks,
    zero_ranks = row.ranks, zero_stage = 3, micro_batches = 1, precision = "bf16",
    device = "cuda", moments = 2, recompute = "block", offload_optimizer = "cpu",
    reference = false, logits = "chunked", machine = math.min(8, row.ranks) }
  for name, value in pairs(changes) do f[name] = value end
  return memory_facts.spread(f, sp, strategy)
end

-- The facts of a row's examples.
local function of_row(of, row, strategy)
  return facts(row, row.sp, strategy, { tokens = row.longest * row.documents,
    documents = row.documents, reference = of.reference or false })
end

-- The facts of the other trainer: its tiling and offloading, a bf16 residual stream, gradients on
-- the host. If weights are on the host, a reference model's weights are, too.
local function theirs(of, row)
  local f = of_row(of, row, of.strategy)
  f.stream_copies = 3 -- gradients of a block's input and output, and a norm's output
  f.offloaded_layers = 3 -- one in use, one being copied out, one read ahead
  f.stream_bytes, f.logits, f.mlp, f.activation_offload = 2, row.logits, row.mlp,
    row.activation_offload
  -- Their attention's workspace is unknown; a GPU's base memory is assumed.
  f.sum_bytes, f.pairs, f.kernels, f.base = of.sum_bytes, row.documents == 2, "none", 1e9
  f.offload_gradients, f.offload_weights, f.keeps_both = true, row.offload_weights, true
  if row.offload_weights then f.reference = false end
  return f
end

--- The numbers of a row.
---@param of moonring.PublishedTable
---@param row moonring.PublishedRow
---@return moonring.TableRow
function plan_tables.row(of, row)
  local function longest(f)
    return memory.longest(f, of.memory, STEP * row.documents) / row.documents
  end
  local r = { theirs = row.longest, predicted = longest(theirs(of, row)), ours = 0, offloading = 0 }
  for _, strategy in ipairs(plan.all_strategies) do
    local f = of_row(of, row, strategy)
    r.ours = math.max(r.ours, longest(f))
    f.activation_offload = "cpu"
    local most = longest(f)
    if most > r.offloading then
      f.tokens = most * row.documents
      r.offloading, r.strategy, r.host = most, row.sp > 1 and strategy or "-",
        memory.predict(f).host * math.min(8, row.ranks)
    end
  end
  return r
end

local function short(tokens)
  return tokens >= 1e6 and ("%.2fM"):format(tokens / 1e6) or ("%.0fk"):format(tokens / 1e3)
end

local function features(row)
  local words = {}
  if row.logits ~= "whole" then words[#words + 1] = "logits" end
  if row.mlp ~= "whole" then words[#words + 1] = "mlp" end
  if row.activation_offload then words[#words + 1] = "offload" end
  return #words > 0 and table.concat(words, "+") or "-"
end

-- The facts with everything that can be offloaded on the host, and with all ranks in one sequence.
local function away(row, strategy, changes)
  local f = facts(row, row.ranks, strategy, { zero_stage = row.ranks > 1 and 3 or 0,
    activation_offload = "cpu", offload_weights = "cpu" })
  for name, value in pairs(changes) do f[name] = value end
  return f
end

--- The longest sequence of a row, with the strategy that allows the longest one; the GPU bytes per
--- token of a rank; and the bytes of the host's memory that a machine's ranks use.
---@param row moonring.AwayRow
---@param changes table facts to change
---@return moonring.PlanAway
function plan_tables.away(row, changes)
  local best = { longest = 0 }
  for _, strategy in ipairs(row.ranks > 1 and plan.all_strategies or { "ulysses" }) do
    local f = away(row, strategy, changes)
    local longest = memory.longest(f, row.memory, STEP)
    if longest > best.longest then
      local function at(tokens)
        f.tokens = tokens
        return memory.predict(f)
      end
      local all, half = at(longest), at(longest / 2)
      best = { longest = longest, host = all.host * f.machine,
        token = (all.total - half.total) / (longest / 2 / row.ranks) }
    end
  end
  return best
end

-- The dtypes of the residual stream.
local AWAY = { { words = "fp32 stream", changes = {} },
  { words = "bf16 stream", changes = { stream_bytes = 2 } } }

local function away_lines(lines)
  local of = published.away
  lines[#lines + 1] = ("\n%s\n  source: %s"):format(of.title, of.source)
  lines[#lines + 1] = "  bf16: true, offload_optimizer, offload_weights and "
    .. "activation_offload: cpu, zero_stage: 3 on several ranks. Cells: tokens / KB of GPU memory "
    .. "per token of a rank.\n  bf16 stream: residual_dtype: bf16"
  local head = ("  %-13s %5s %9s %8s %-5s"):format("model", "GPUs", "memory", "theirs", "by")
  for _, column in ipairs(AWAY) do head = head .. ("%20s"):format(column.words) end
  lines[#lines + 1] = head .. ("%10s"):format "host"
  for _, row in ipairs(of.rows) do
    local line = ("  %-13s %5d %9s %8s %-5s"):format(row.model, row.ranks,
      machine.show(row.memory), row.theirs and short(row.theirs) or "-", row.by or "-")
    local r
    for _, column in ipairs(AWAY) do
      r = plan_tables.away(row, column.changes)
      line = line .. ("%20s"):format(("%s / %.0f"):format(short(r.longest), r.token / 1e3))
    end
    lines[#lines + 1] = line .. ("%10s"):format(machine.show(r.host))
  end
end

--- All tables as text.
---@return string
function plan_tables.text()
  local lines = {
    "Longest examples in tokens. theirs: published. predicted: our formulas with their settings "
      .. "(what is tiled, chunked or offloaded there stands under \"tiled\").",
    "ours: Moonring predicted with bf16: true, ZeRO-3 and the optimizer's states on the host, as "
      .. "they; + offload: and activation_offload: cpu, by the strategy named, which",
    "then needs \"host\" bytes of a machine. Moonring keeps the stream between blocks in fp32, "
      .. "they in bf16: so it wants twice the room for what waits for the backward.",
  }
  for _, of in ipairs(published.tables) do
    lines[#lines + 1] = ("\n%s\n  source: %s"):format(of.title, of.source)
    lines[#lines + 1] = ("  %-13s %5s %3s %-18s %8s %9s %6s %9s %6s %9s %6s %-12s %9s"):format(
      "model", "GPUs", "sp", "tiled", "theirs", "predicted", "ratio", "ours", "ratio", "+ offload",
      "ratio", "by", "host")
    for _, row in ipairs(of.rows) do
      local r = plan_tables.row(of, row)
      local function ratio(tokens) return ("%.2f"):format(tokens / r.theirs) end
      lines[#lines + 1] = ("  %-13s %5d %3d %-18s %8s %9s %6s %9s %6s %9s %6s %-12s %9s"):format(
        row.model, row.ranks, row.sp, features(row), short(r.theirs), short(r.predicted),
        ratio(r.predicted),
        short(r.ours), ratio(r.ours), short(r.offloading), ratio(r.offloading), r.strategy,
          machine.show(r.host))
    end
  end
  away_lines(lines)
  return table.concat(lines, "\n")
end

return plan_tables
