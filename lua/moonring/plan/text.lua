--- The output of `moonring plan`, as lines.
local coefficients = require "moonring.plan.coefficients"
local communication = require "moonring.plan.communication"
local expert_share = require "moonring.plan.expert_share"
local machine = require "moonring.base.machine"
local memory = require "moonring.plan.memory"
local plan = require "moonring.plan"
local process_bytes = require "moonring.plan.process_bytes"
local shared_prefixes = require "moonring.plan.shared_prefixes"

---@class moonring.plan_text
local plan_text = {}

---@class moonring.PlanAbout
---@field name string of the model
---@field memory number bytes per rank
---@field length integer tokens of an example
---@field links { near: number, far: number, named: string }
---@field all boolean shows every strategy in the table
---@field facts_with fun(changes: table): moonring.MemoryFacts

local MOMENTS = { logits = "while logits are made", ["top block"] = "in the last block's backward",
  ["block below"] = "in the backward of the block below the last",
  ["first block"] = "in the first block's backward",
  embedding = "in the embedding's backward", load = "when weights are read",
  step = "in the optimizer's step" }

local grouped = machine.grouped

--- A prediction by component, as lines.
---@param found moonring.MemoryPrediction
---@param indent string
---@return string[]
function plan_text.parts(found, indent)
  local words = { weights = "weights", reference = "the reference model", gradients = "gradients",
    optimizer = "the optimizer's states", checkpoints = "what waits for the backward",
    attention = "a layer's attention", kernel = "attention's kernel: sums of dq, copies in 16 "
      .. "bit, dk and dv of all heads", block = "a block's other work", logits = "logits, the head",
      communication = "exchanged heads, keys of others", other = "the process itself" }
  local lines = {}
  for _, part in ipairs(memory.parts) do
    if found.parts[part] >= 2 ^ 19 then
      lines[#lines + 1] = ("%s%-14s%11s  %s"):format(indent, part, machine.show(found.parts[part]),
        words[part])
    end
  end
  for _, each in ipairs(found.fixed) do
    lines[#lines + 1] = ("%s  %-12s%11s  %s"):format(indent, "", machine.show(each.bytes),
      each.words)
  end
  return lines
end

-- Seconds as text.
local function time(seconds) return seconds == 0 and "-" or ("%.2g s"):format(seconds) end

local function table_lines(rows, links)
  local lines = { ("  %4s  %-12s %-62s %10s %14s %10s"):format("sp", "strategy", "with", "a rank",
    "longest", "sends") }
  for _, row in ipairs(rows) do
    lines[#lines + 1] = ("%s %4d  %-12s %-62s %10s %14s %10s"):format(row.fits and "*" or " ",
      row.sp, row.sp > 1 and row.strategy or "-", row.measure.short, machine.show(row.found.total),
      row.longest > 0 and grouped(row.longest) or "none",
        time(plan.seconds(row, links.near, links.far)))
  end
  return lines
end

-- A line about experts that ranks share; nil if they do not.
local function experts_line(f)
  local ranks, own, frozen = expert_share.ranks(f), expert_share.own(f)
  if ranks == 1 then return nil end
  return ("experts of %d ranks: %s parameters of them on each; a step's rows to them and back are "
    .. "%s that a rank sends, the load being even"):format(ranks, grouped(math.floor(own + frozen
    + 0.5)), machine.show(communication.step(f).experts))
end

-- A line about local_steps; nil without.
local function rounds_line(f, found)
  if not f.local_steps then return nil end
  return ("  local_steps: %d  %10s  a rank, of the optimizer's, for the rounds of %d sp groups; a "
    .. "rank sends %s in one"):format(f.local_steps, machine.show(found.outer), f.ranks / f.sp,
    machine.show(communication.step(f).outer * f.local_steps))
end

local function header(f, about)
  local m, learns = f.model, f.learns.embedding + f.learns.head + f.learns.blocks + f.adapter
  local total = m.embedding + m.head + m.blocks
  return {
    ("%s: %s parameters, %s of them trainable; %s, recompute: %s"):format(about.name,
      grouped(total + f.adapter), learns == total and "all" or grouped(learns), f.precision,
      f.recompute),
    ("%d ranks (%s) of %s, sp %d%s, zero_stage %d; an example of %s tokens: %s go through one "
      .. "forward, %s on each rank"):format(f.ranks, f.device, machine.show(about.memory), f.sp,
      f.sp > 1 and " by " .. f.strategy or "", f.zero_stage, grouped(about.length),
        grouped(f.tokens), grouped(math.ceil(f.tokens / f.sp))),
    experts_line(f),
  }
end

local function elsewhere(found)
  if found.host + found.disk == 0 then return nil end
  return ("  besides        %10s  a rank %s"):format(machine.show(found.host + found.disk),
    found.host > 0 and "in the host's memory" or "on disk")
end

-- A line about the traffic of linear attention; nil if there is none, or only one rank.
local function mixing_line(f)
  local step = communication.step(f)
  if not step.mode then return nil end
  return ("linear attention by %s (linear_attention_mode: %s): a rank sends %s for it in a step, "
    .. "%s for attention"):format(step.mode, f.mixing or "auto", machine.show(step.mixing),
    machine.show(step.attention))
end

-- A line about what shared prefixes save, for prompts of a half and of three quarters of an
-- example; nil if nothing is shared.
local function shared_line(f)
  if not f.shares then return nil end
  local length, words = math.floor(f.alone / f.documents), {}
  for i, part in ipairs { 1 / 2, 3 / 4 } do
    local prompt = math.floor(length * part)
    local tokens, operations = shared_prefixes.cost(f.shares, f.documents, length, prompt)
    words[i] = ("a prompt of %s leaves %s tokens and %.0f%% of the operations"):format(
      grouped(prompt), grouped(tokens), 100 * operations)
  end
  return ("share_prefixes: of an example of %d x %s tokens %s; bytes here are without it"):format(
    f.documents, grouped(length), table.concat(words, ", "))
end

-- A line about a quantized base: its bytes on each rank, and the buffer for dequantized weights.
local function packed_line(f)
  if not f.packed then return nil end
  local shards, element = f.zero_stage == 3 and f.zero_ranks or 1,
    coefficients.bytes[f.precision].e
  return ("  of weights     %10s  hold %s numbers packed (%s); a block's are unpacked at a time: a "
    .. "buffer of %s"):format(machine.show(f.packed.bytes / shards), grouped(f.packed.numbers),
    f.packed_code, machine.show(element * f.packed.layer_numbers))
end

-- Lines about the process itself on a CPU: the tokenizer, and pages of files, which the system
-- includes in a process's memory (RSS).
local function process_lines(f, found)
  local libraries, mapped = process_bytes.libraries(f), f.mapped or 0
  if libraries == 0 then return {} end
  local lines = { ("  of other       %10s  the tokenizer's tables"):format(
    machine.show(process_bytes.tokenizer(f))),
    ("  besides        %10s  pages of the program and its libraries"):format(
      machine.show(libraries)) }
  if mapped > 0 then
    lines[3] = ("  besides        %10s  pages of the model's files, which the kernel lets go when "
      .. "it wants room"):format(machine.show(mapped))
  end
  lines[#lines + 1] = ("  resident       %10s  as the system shows the process (RSS) at its most: "
    .. "with those pages"):format(machine.show(found.total + libraries + mapped))
  return lines
end

local SMALL = 2 ^ 26 -- smaller checkpoints are not mentioned

-- A line about the memory that buffers a checkpoint until it is on the disk: the model's file, and
-- trainable weights with optimizer state. It is not in the total, because without this memory the
-- run works too: the training waits while the checkpoint is written.
local function checkpoint_line(f, found)
  local m, l = f.model, f.learns
  local element = coefficients.bytes[f.precision].w
  local learns = l.embedding + l.head + l.blocks + f.adapter
  local file = f.adapter > 0 and f.adapter or m.embedding + m.head + m.blocks
  local bytes = element * (file + learns) + (found.parts.optimizer or 0)
  if bytes < SMALL then return nil end
  return ("  besides        %10s  of the host's, at most, for a checkpoint on its way to the disk, "
    .. "if half of what is free holds it"):format(machine.show(bytes))
end

--- The whole output.
---@param f moonring.MemoryFacts
---@param about moonring.PlanAbout
---@return string
function plan_text.whole(f, about)
  local lines = header(f, about)
  local found = memory.predict(f)
  lines[#lines + 1] = ""
  lines[#lines + 1] = ("as configured %s a rank, the most %s: %s"):format(machine.show(found.total),
    MOMENTS[found.moment], found.total <= about.memory and "it fits" or "it does not fit")
  for _, line in ipairs(plan_text.parts(found, "  ")) do lines[#lines + 1] = line end
  if found.mapped > 0 then
    lines[#lines + 1] = ("  of weights     %10s  are pages of the model's files, which the kernel "
      .. "can read again when it wants room"):format(machine.show(found.mapped))
  end
  lines[#lines + 1] = packed_line(f)
  lines[#lines + 1] = rounds_line(f, found)
  lines[#lines + 1] = elsewhere(found)
  lines[#lines + 1] = f.idle_offload
  lines[#lines + 1] = f.idle_mixing
  lines[#lines + 1] = mixing_line(f)
  lines[#lines + 1] = shared_line(f)
  lines[#lines + 1] = f.moments_of and ("  optimizer: %s does not say what it keeps (moments): %g "
    .. "numbers a weight are assumed"):format(f.moments_of, f.moments)
  for _, line in ipairs(process_lines(f, found)) do lines[#lines + 1] = line end
  lines[#lines + 1] = checkpoint_line(f, found)
  local rows = plan.rows(f, about.memory, about.all and plan.all_strategies)
  lines[#lines + 1] = ""
  lines[#lines + 1] = ("what else it could be (*: fits; longest: tokens of an example alone; "
    .. "sends: an estimate of a step's bytes over %s, nothing hidden)"):format(about.links.named)
  for _, line in ipairs(table_lines(rows, about.links)) do lines[#lines + 1] = line end
  lines[#lines + 1] = ""
  local best = plan.propose(rows)
  if not best then
    local resorts = plan.last_resorts(rows, f, about.memory, about.facts_with)
    lines[#lines + 1] = ("nothing above fits in %s a rank%s"):format(machine.show(about.memory),
      #resorts > 0 and ". What would:" or ", and nothing else that is known here would")
    for _, words in ipairs(resorts) do lines[#lines + 1] = "  " .. words end
    return table.concat(lines, "\n")
  end
  local changed = plan.keys(best, f)
  lines[#lines + 1] = ("the smallest sp that fits: %d, %s a rank, up to %s tokens; %s"):format(
    best.sp, machine.show(best.found.total), grouped(best.longest),
    #changed > 0 and "to write:" or "nothing to change")
  for _, key in ipairs(changed) do lines[#lines + 1] = "  " .. key end
  local in_memory = plan.propose_in_memory(rows)
  if in_memory and in_memory ~= best then
    lines[#lines + 1] = ("the smallest with nothing offloaded: %d, %s a rank: %s"):format(
      in_memory.sp, machine.show(in_memory.found.total),
      table.concat(plan.keys(in_memory, f), ", "))
  end
  if best.sp > 1 and not about.all then
    lines[#lines + 1] = ("\nstrategies at sp %d"):format(best.sp)
    for _, line in ipairs(table_lines(plan.strategies(best.facts, about.memory), about.links)) do
      lines[#lines + 1] = line
    end
  end
  return table.concat(lines, "\n")
end

return plan_text
