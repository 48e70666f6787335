--- The memory check before a run: predicts whether it fits, and proposes changes if it does not.
local compute = require "moonring.choices.compute"
local config = require "moonring.config"
local batching = require "moonring.choices.batching"
local machine = require "moonring.base.machine"
local memory = require "moonring.plan.memory"
local memory_facts = require "moonring.plan.facts"
local plan = require "moonring.plan"
local recompute = require "moonring.plan.recompute"
local rollout_settings = require "moonring.choices.rollout_settings"
local stages = require "moonring.choices.stages"
local system = require "moonring.native.system"

---@class moonring.memory_check
local memory_check = {}

---@class moonring.CheckedRun
---@field mesh moonring.Mesh
---@field device "cpu" | "cuda"
---@field checkpoint moonring.Checkpoint
---@field dataset moonring.Dataset | moonring.Stream
---@field report? moonring.MemoryReport receives the prediction

-- Lists the largest memory components of a prediction as text.
local function told(found)
  local parts = {}
  for _, part in ipairs(memory.parts) do
    if found.parts[part] >= 0.02 * found.total then
      parts[#parts + 1] = part .. " " .. machine.show(found.parts[part])
    end
  end
  return table.concat(parts, ", ")
end

--- Proposes configurations that would fit: each is text with keys to set. The one with the least
--- impact is first.
---@param f moonring.MemoryFacts
---@param bytes number available to a rank
---@param facts_with fun(changes: table): moonring.MemoryFacts facts with changed keys
---@return string[]
function memory_check.proposals(f, bytes, facts_with)
  local rows, own, words = plan.rows(f, bytes), {}, {}
  for _, row in ipairs(rows) do
    if row.sp == f.sp then own[#own + 1] = row end
  end
  for _, row in ipairs { plan.propose(own) or false, plan.propose(rows) or false } do
    local keys = row and table.concat(plan.keys(row, f), ", ")
    if keys and keys ~= "" and keys ~= words[1] then words[#words + 1] = keys end
  end
  if #words > 0 then return words end
  return plan.last_resorts(rows, f, bytes, facts_with)
end

--- Judges a prediction; nil if it fits.
---@param f moonring.MemoryFacts
---@param bytes number available to a rank
---@param facts_with fun(changes: table): moonring.MemoryFacts
---@return ("warn" | "refuse")? verdict
---@return string? words
function memory_check.judge(f, bytes, facts_with)
  local found = memory.predict(f)
  if found.total <= bytes * (1 - memory.error) then return nil end
  local words = ("this run is predicted to need %s per rank (%s), %s are available"):format(
    machine.show(found.total), told(found), machine.show(bytes))
  if found.total <= bytes * (1 + memory.error) then
    return "warn", "memory: " .. words .. ": it may not fit"
  end
  local proposals = memory_check.proposals(f, bytes, facts_with)
  local advice = #proposals > 0 and "what is predicted to fit: " .. table.concat(proposals, "; or ")
    or "moonring plan knows no settings that fit"
  return "refuse", ("memory: %s; %s (memory_check: warn continues anyway)"):format(words,
    advice)
end

local HOST = "memory: what is offloaded is predicted to need %s of the host's memory, %s are "
  .. "available; use fewer tokens or offload less (memory_check: warn continues anyway)"

--- Checks that the tensors that GPUs offload fit into the host's memory. Returns the error, or nil.
---@param f moonring.MemoryFacts
---@param ranks integer that share the host
---@param bytes number of the host's memory
---@return string?
function memory_check.judge_host(f, ranks, bytes)
  local wanted = memory.predict(f).host * ranks
  if wanted <= bytes * (1 + memory.error) then return nil end
  return HOST:format(machine.show(wanted), machine.show(bytes))
end

-- The length of the longest document of a data set, if it is known before packing.
local function longest(c, dataset)
  if c.streaming or c.packing or c.neat_packing or stages.of(c).reads == "pt" then return nil end
  local report = system.json_decode(dataset:report_json())
  if report.longest == 0 then return nil end
  return report.longest + (rollout_settings.wanted(c) and c.max_completion_length or 0)
end

-- The bytes that each rank may use: memory_limit, or the smallest memory of all ranks.
local function available(c, parts, local_ranks)
  local bytes = c.memory_limit and machine.bytes(c.memory_limit, "memory_limit")
    or machine.memory_of_rank(parts.device, local_ranks) or math.huge
  return -parts.mesh:max(-bytes)
end

--- Chooses the value of `cast_weights: auto`. "step" keeps 16-bit copies of all matrices during a
--- step; it is chosen on a GPU if they fit or exist in any case. "lease" casts a matrix each time
--- it is used. The results are the same. Returns a log line if the copies do not fit.
---@param c moonring.Configuration
---@param device "cpu" | "cuda"
---@param facts_with fun(changes: table): moonring.MemoryFacts
---@param bytes number available to a rank
---@return string?
function memory_check.settle_casts(c, device, facts_with, bytes)
  if c.cast_weights ~= "auto" then return nil end
  c.cast_weights = "lease"
  local held = compute.held(c)
  if device ~= "cuda" or not held then return nil end
  local kept = memory.predict(facts_with { cast_weights = "step" }).total
  if kept <= bytes * (1 - memory.error) then
    c.cast_weights = "step"
  elseif kept > memory.predict(facts_with {}).total then
    return "cast_weights: lease: there is no room for " .. held .. " copies of all matrices"
  end
end

--- Chooses micro_batch_tokens for `auto_find_batch_size`: halves it until the run is predicted to
--- fit. If no smaller value fits, it is unchanged. All ranks have the same facts, so they get the
--- same result. Returns a log line if the value was halved.
---@param c moonring.Configuration
---@param facts_with fun(changes: table): moonring.MemoryFacts
---@param bytes number available to a rank
---@return string?
function memory_check.settle_tokens(c, facts_with, bytes)
  if not c.auto_find_batch_size or c.memory_check == "off" or bytes == math.huge then return nil end
  local before = batching.micro_batch_tokens(c)
  local tokens, most = before, bytes * (1 - memory.error)
  local function total() return memory.predict(facts_with { micro_batch_tokens = tokens }).total end
  local found = total()
  while found > most and tokens > 1 do
    tokens = math.floor(tokens / 2)
    found = total()
  end
  if found > most or tokens == before then return nil end
  c.micro_batch_tokens = tokens
  return ("auto_find_batch_size: micro_batch_tokens: %d is predicted not to fit; %d is used")
    :format(before, tokens)
end

--- Applies memory_check and memory_limit, which may end a run that would not fit, and chooses the
--- layers for recompute: auto. Returns lines for the log. Collective over all ranks. Errors:
--- INVALID_ARGUMENT with the predicted bytes by component, the available bytes, and proposed
--- changes.
---@param c moonring.Configuration
---@param parts moonring.CheckedRun
---@return string[]
function memory_check.run(c, parts)
  local local_ranks = machine.local_ranks() or parts.mesh:size()
  local lines, bytes, document = {}, available(c, parts, local_ranks), longest(c, parts.dataset)
  local function facts_with(changes)
    return memory_facts.run(setmetatable(changes, { __index = c }), parts.checkpoint,
      { ranks = parts.mesh:size(), device = parts.device, machine = local_ranks,
      longest = document, context_is_there = not c.memory_limit })
  end
  lines[1] = memory_check.settle_casts(c, parts.device, facts_with, bytes)
  if bytes < math.huge then lines[#lines + 1] = recompute.settle(c, facts_with {}, bytes) end
  lines[#lines + 1] = memory_check.settle_tokens(c, facts_with, bytes)
  local f = facts_with {}
  if parts.report then parts.report:set_prediction(memory.predict(f)) end
  if c.memory_check == "off" or bytes == math.huge then return lines end
  local verdict, words = memory_check.judge(f, bytes, facts_with)
  local host = memory_check.judge_host(f, local_ranks,
    -parts.mesh:max(-machine.host_memory().available))
  if host and verdict ~= "refuse" then verdict, words = "refuse", host end
  if verdict == "refuse" and c.memory_check == "refuse" then config.fail(words) end
  lines[#lines + 1] = words
  return lines
end

return memory_check
