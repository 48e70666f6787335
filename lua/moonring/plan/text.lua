--- The output of `moonring plan`, as lines.
local coefficients = require "moonring.plan.coefficients"
local communication = require "moonring.plan.communication"
local expert_share = require "moonring.plan.expert_share"
local machine = require "moonring.base.machine"
local memory = require "moonring.plan.memory"
local model_flops = require "moonring.plan.model_flops"
local plan = require "moonring.plan"
local process_bytes = require "moonring.plan.process_bytes"

---@class moonring.plan_text
local plan_text = {}

---@class moonring.PlanAbout
---@field name string of the model
---@field memory number bytes per rank
---@field length integer tokens of an example
---@field links { near: number, far: number, named: string }
---@field all boolean shows every strategy in the table
---@field facts_with fun(changes: table): moonring.MemoryFacts

local MOMENTS = { logits = "while logits are computed",
  ["top block"] = "in the last block's backward",
  ["block below"] = "in the second-to-last block's backward",
  ["first block"] = "in the first block's backward",
  embedding = "in the embedding's backward", load = "while weights are read",
  step = "in the optimizer's step" }

local PARTS = { weights = "weights", reference = "the reference model", gradients = "gradients",
  optimizer = "the optimizer's states", checkpoints = "what is kept for the backward",
  attention = "one layer's attention",
  kernel = "attention's kernel: sums of dq, 16-bit copies, dk and dv of all heads",
  block = "the rest of a block", logits = "logits, the head",
  communication = "exchanged heads, keys of other ranks", other = "the process itself" }

local grouped, show = machine.grouped, machine.show

-- A line about bytes.
local function row(label, bytes, words, ...)
  return ("  %-14s%11s  %s"):format(label, show(bytes), words:format(...))
end

--- A prediction by component, as lines.
---@param found moonring.MemoryPrediction
---@return string[]
function plan_text.parts(found)
  local lines = {}
  for _, part in ipairs(memory.parts) do
    if found.parts[part] >= 2 ^ 19 then
      lines[#lines + 1] = row(part, found.parts[part], PARTS[part])
    end
  end
  for _, each in ipairs(found.fixed) do lines[#lines + 1] = row("", each.bytes, each.words) end
  return lines
end

-- Seconds as text.
local function time(seconds) return seconds == 0 and "-" or ("%.2g s"):format(seconds) end

local function table_lines(rows, links)
  local lines = { ("  %4s  %-12s %-62s %10s %14s %10s"):format("sp", "strategy", "settings",
    "per rank", "longest", "sends") }
  for _, each in ipairs(rows) do
    lines[#lines + 1] = ("%s %4d  %-12s %-62s %10s %14s %10s"):format(each.fits and "*" or " ",
      each.sp, each.sp > 1 and each.strategy or "-", each.measure.short, show(each.found.total),
      each.longest > 0 and grouped(each.longest) or "none",
      time(plan.seconds(each, links.near, links.far)))
  end
  return lines
end

-- A line about experts that ranks share; nil if they do not.
local function experts_line(f)
  local ranks, own, frozen = expert_share.ranks(f), expert_share.own(f)
  if ranks == 1 then return nil end
  return ("experts over %d ranks: %s of their parameters on each; a rank sends %s per step to "
    .. "experts of other ranks and back, if the load is even"):format(ranks,
    grouped(math.floor(own + frozen + 0.5)), show(communication.step(f).experts))
end

-- A line about local_steps; nil without.
local function rounds_line(f, found)
  if not f.local_steps then return nil end
  return row("local_steps: " .. f.local_steps, found.outer, "per rank, part of the optimizer's "
    .. "states, for rounds of %d sp groups; a rank sends %s per round", f.ranks / f.sp,
    show(communication.step(f).outer * f.local_steps))
end

local function trainable(f)
  return f.learns.embedding + f.learns.head + f.learns.blocks + f.adapter
end

local function header(f, about)
  local m, learns = f.model, trainable(f)
  local total = m.embedding + m.head + m.blocks
  return {
    ("%s: %s parameters, %s of them trainable; %s, recompute: %s"):format(about.name,
      grouped(total + f.adapter), learns == total and "all" or grouped(learns), f.precision,
      f.recompute),
    ("%d ranks (%s) with %s each, sp %d%s, zero_stage %d; examples of %s tokens, %s in a "
      .. "forward, %s on each rank"):format(f.ranks, f.device, show(about.memory), f.sp,
      f.sp > 1 and " with " .. f.strategy or "", f.zero_stage, grouped(about.length),
      grouped(f.tokens), grouped(math.ceil(f.tokens / f.sp))),
    experts_line(f),
  }
end

local function elsewhere(found)
  if found.host + found.disk == 0 then return nil end
  return row("in addition", found.host + found.disk, "per rank %s",
    found.host > 0 and "in the host's memory" or "on disk")
end

-- A line about the traffic of linear attention; nil if there is none, or only one rank.
local function mixing_line(f)
  local step = communication.step(f)
  if not step.mode then return nil end
  return ("linear attention with %s (linear_attention_mode: %s): a rank sends %s for it per step, "
    .. "%s for attention"):format(step.mode, f.mixing or "auto", show(step.mixing),
    show(step.attention))
end

-- A line about what shared prefixes save, for prompts of a half and of three quarters of an
-- example; nil if nothing is shared.
local function shared_line(f)
  if not f.shares then return nil end
  local length, words = math.floor(f.alone / f.documents), {}
  for i, part in ipairs { 1 / 2, 3 / 4 } do
    local prompt = math.floor(length * part)
    local tokens, operations = model_flops.shared(f.shares, f.documents, length, prompt)
    words[i] = ("%s tokens and %.0f%% of the operations remain with a prompt of %s"):format(
      grouped(tokens), 100 * operations, grouped(prompt))
  end
  return ("share_prefixes: of an example of %d x %s tokens, %s; the bytes here are without it")
    :format(f.documents, grouped(length), table.concat(words, ", "))
end

-- A line about a quantized base: its bytes on each rank, and the buffer for dequantized weights.
local function packed_line(f)
  if not f.packed then return nil end
  local shards, s = f.zero_stage == 3 and f.zero_ranks or 1, coefficients.bytes[f.precision]
  return row("of weights", f.packed.bytes / shards, "%s numbers packed (%s); one block at a time "
    .. "is dequantized: a buffer of %s", grouped(f.packed.numbers), f.packed_code,
    show(s.e * f.packed.layer_numbers))
end

-- Lines about the process itself on a CPU: the tokenizer, and pages of files, which the system
-- includes in a process's memory (RSS).
local function process_lines(f, found)
  local libraries, mapped = process_bytes.libraries(f), f.mapped or 0
  if libraries == 0 then return {} end
  local lines = { row("of other", process_bytes.tokenizer(f), "the tokenizer's tables"),
    row("in addition", libraries, "pages of the program and its libraries") }
  if mapped > 0 then
    lines[3] = row("in addition", mapped, "pages of the model's files, which the kernel can evict")
  end
  lines[#lines + 1] = row("resident", found.total + libraries + mapped,
    "peak size of the process as the system shows it (RSS), with those pages")
  return lines
end

local SMALL = 2 ^ 26 -- smaller checkpoints are not mentioned

-- A line about the memory that buffers a checkpoint until it is on the disk: the model's file, and
-- trainable weights with optimizer state. It is not in the total, because without this memory the
-- run works too: the training waits while the checkpoint is written.
local function checkpoint_line(f, found)
  local m = f.model
  local file = f.adapter > 0 and f.adapter or m.embedding + m.head + m.blocks
  local bytes = coefficients.bytes[f.precision].w * (file + trainable(f))
    + (found.parts.optimizer or 0)
  if bytes < SMALL then return nil end
  return row("in addition", bytes, "of the host's memory at most, for a checkpoint until it is on "
    .. "the disk, if half of the free memory has room for it")
end

-- Lines about the first row that fits; without one, about other changes that would help.
local function proposal_lines(rows, f, about)
  local best, in_memory = plan.propose(rows), plan.propose_in_memory(rows)
  if not best then
    local resorts = plan.last_resorts(rows, f, about.memory, about.facts_with)
    local lines = { ("none of these fits in %s per rank%s"):format(show(about.memory),
      #resorts > 0 and "; these would:" or ", and no other known change would") }
    for _, words in ipairs(resorts) do lines[#lines + 1] = "  " .. words end
    return lines
  end
  local changed = plan.keys(best, f)
  local lines = { ("the smallest sp that fits: %d, %s per rank, up to %s tokens; %s"):format(
    best.sp, show(best.found.total), grouped(best.longest),
    #changed > 0 and "set:" or "nothing to change") }
  for _, key in ipairs(changed) do lines[#lines + 1] = "  " .. key end
  if in_memory and in_memory ~= best then
    lines[#lines + 1] = ("the smallest without offload: %d, %s per rank: %s"):format(in_memory.sp,
      show(in_memory.found.total), table.concat(plan.keys(in_memory, f), ", "))
  end
  if best.sp > 1 and not about.all then
    lines[#lines + 1] = ("\nstrategies at sp %d"):format(best.sp)
    for _, line in ipairs(table_lines(plan.strategies(best.facts, about.memory), about.links)) do
      lines[#lines + 1] = line
    end
  end
  return lines
end

--- The whole output.
---@param f moonring.MemoryFacts
---@param about moonring.PlanAbout
---@return string
function plan_text.whole(f, about)
  local lines, found = header(f, about), memory.predict(f)
  local function add(more) -- a line, a list of lines, or nil
    for _, line in ipairs(type(more) == "table" and more or { more }) do
      lines[#lines + 1] = line
    end
  end
  add ""
  add(("as configured %s per rank, with the peak %s: %s"):format(show(found.total),
    MOMENTS[found.moment], found.total <= about.memory and "it fits" or "it does not fit"))
  add(plan_text.parts(found))
  if found.mapped > 0 then
    add(row("of weights", found.mapped,
      "are pages of the model's files, which the kernel can evict and read again"))
  end
  add(packed_line(f))
  add(rounds_line(f, found))
  add(elsewhere(found))
  add(f.idle_offload)
  add(f.idle_mixing)
  add(mixing_line(f))
  add(shared_line(f))
  add(f.moments_of and ("  optimizer: %s does not state what it keeps (moments): %g numbers per "
    .. "weight are assumed"):format(f.moments_of, f.moments) or nil)
  add(process_lines(f, found))
  add(checkpoint_line(f, found))
  local rows = plan.rows(f, about.memory, about.all and plan.all_strategies)
  add(("\nalternatives (*: fits; longest: tokens of a single example; sends: estimated time for a "
    .. "step's bytes over %s, without overlap)"):format(about.links.named))
  add(table_lines(rows, about.links))
  add ""
  add(proposal_lines(rows, f, about))
  return table.concat(lines, "\n")
end

return plan_text
