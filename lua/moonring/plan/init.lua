--- `moonring plan`: predicts the memory of a configuration and of alternatives, and finds the
-- smallest sequence parallel size that fits.
local communication = require "moonring.plan.communication"
local compute = require "moonring.choices.compute"
local config = require "moonring.config"
local engines = require "moonring.config.engines"
local expert_ranks = require "moonring.choices.expert_ranks"
local measures = require "moonring.plan.measures"
local memory = require "moonring.plan.memory"
local memory_facts = require "moonring.plan.facts"
local system = require "moonring.native.system"

---@class moonring.plan
---@field all_strategies string[] the strategies that a full table lists
local plan = {}

---@class moonring.PlanRow
---@field sp integer
---@field strategy string
---@field measure moonring.Measure
---@field facts moonring.MemoryFacts
---@field found moonring.MemoryPrediction
---@field fits boolean
---@field longest number tokens of the longest example that fits on its own; 0: none

local STEP = 1024 -- lengths are rounded down to multiples of this
local STRATEGIES = { "ulysses", "zigzag-ring", "all-gather", "usp" }

--- Applies settings of other engines to the configuration, as train does. Errors: INVALID_ARGUMENT
--- for an invalid zero_stage.
---@param c moonring.Configuration
function plan.settle(c)
  engines.apply(c)
  if c.zero_stage and not (c.zero_stage >= 0 and c.zero_stage <= 3) then
    config.fail("zero_stage: expected 0 to 3, got ", c.zero_stage)
  end
end

--- The device that a plan is for: the key `device`, otherwise --device, otherwise a GPU if the key
--- `memory` is given, otherwise the device that a run would use.
---@param c moonring.Configuration
---@return "cpu" | "cuda"
function plan.device(c)
  local asked = system.requested_device()
  return c.device or (c.use_cpu and "cpu") or (asked ~= "auto" and asked) or (c.memory and "cuda")
    or compute.device(c)
end

--- Refuses a number of ranks that is not a multiple of sequence_parallel_size and
--- expert_parallel_size.
---@param c moonring.Configuration
---@param ranks integer
function plan.check_ranks(c, ranks)
  if ranks % c.sequence_parallel_size ~= 0 then
    config.fail("sequence_parallel_size: ", c.sequence_parallel_size,
      " does not divide the number of ranks, ", ranks)
  end
  expert_ranks.check_ranks(c.expert_parallel_size, ranks)
end

--- Refuses a model without experts if expert_parallel_size is given.
---@param c moonring.Configuration
---@param checkpoint moonring.Checkpoint
function plan.check_model(c, checkpoint) expert_ranks.check_model(c, checkpoint) end

--- Predicts the memory for `f` after a change that reduces memory (measures.lua).
---@param f moonring.MemoryFacts
---@param measure moonring.Measure
---@param bytes number available to a rank
---@return moonring.PlanRow
function plan.row(f, measure, bytes)
  local changes = {}
  for name, value in pairs(measure.changes) do changes[name] = value end
  local changed = setmetatable(changes, { __index = f })
  local found = memory.predict(changed)
  return { sp = f.sp, strategy = f.strategy, measure = measure, facts = changed, found = found,
    fits = found.total <= bytes,
    longest = memory.longest(changed, bytes, STEP * f.documents) / f.documents }
end

--- The sequence parallel sizes that `ranks` allow, ascending.
---@param ranks integer
---@return integer[]
function plan.sizes(ranks)
  local sizes = {}
  for sp = 1, ranks do
    if ranks % sp == 0 then sizes[#sizes + 1] = sp end
  end
  return sizes
end

-- The same facts with sequences divided over sp ranks. Degrees that the configuration sets are used
-- only for the sp and strategy that it sets.
local function over(f, sp, strategy)
  local is_asked = sp == f.sp and strategy == f.strategy
  return memory_facts.spread(f, sp, strategy, is_asked and f.options or nil)
end

--- All rows of the table: every sp size, with every strategy and every measure that reduces memory.
---@param f moonring.MemoryFacts
---@param bytes number
---@param strategies? string[] default: the configured one
---@return moonring.PlanRow[]
function plan.rows(f, bytes, strategies)
  local rows = {}
  for _, sp in ipairs(plan.sizes(f.ranks)) do
    for _, strategy in ipairs(sp > 1 and strategies or { f.strategy }) do
      if not (strategy == "ulysses" and sp > f.model.heads) then
        local spread = over(f, sp, strategy)
        for _, measure in ipairs(measures.of(spread)) do
          rows[#rows + 1] = plan.row(spread, measure, bytes)
        end
      end
    end
  end
  return rows
end

--- The first row that fits: the smallest sp with the measure of least impact.
---@param rows moonring.PlanRow[]
---@return moonring.PlanRow?
function plan.propose(rows)
  for _, row in ipairs(rows) do
    if row.fits then return row end
  end
end

--- The first row that fits without additional offloading.
---@param rows moonring.PlanRow[]
---@return moonring.PlanRow?
function plan.propose_in_memory(rows)
  for _, row in ipairs(rows) do
    if row.fits and not (row.measure.changes.activation_offload
      or row.measure.changes.offload_optimizer) then
      return row
    end
  end
end

--- The keys to set so that the configuration becomes that of a row, as "name: value".
---@param row moonring.PlanRow
---@param f moonring.MemoryFacts
---@return string[]
function plan.keys(row, f)
  local lines = {}
  if row.sp ~= f.sp then lines[1] = "sequence_parallel_size: " .. row.sp end
  if row.strategy ~= f.strategy then
    lines[#lines + 1] = "sequence_parallel_mode: " .. row.strategy
  end
  for _, key in ipairs(row.measure.keys) do lines[#lines + 1] = key end
  return lines
end

--- Further proposals if no row fits, as text.
---@param rows moonring.PlanRow[]
---@param f moonring.MemoryFacts
---@param bytes number
---@param facts_with fun(changes: table): moonring.MemoryFacts
---@return string[]
function plan.last_resorts(rows, f, bytes, facts_with)
  local words, best = {}, nil
  for _, row in ipairs(rows) do
    if not best or row.longest > best.longest then best = row end
  end
  if best and best.longest > 0 then
    local keys = plan.keys(best, f)
    keys[#keys + 1] = "cutoff_len: " .. best.longest
    words[1] = table.concat(keys, ", ")
  end
  for _, changes in ipairs { { pure_bf16 = true, bf16 = false }, { finetuning_type = "lora" } } do
    local ok, other = pcall(facts_with, changes)
    local row = ok and plan.propose(plan.rows(other, bytes))
    if row and memory.predict(other).total < memory.predict(f).total then
      local keys = plan.keys(row, f)
      for name, value in pairs(changes) do
        if value then table.insert(keys, 1, name .. ": " .. tostring(value)) end
      end
      words[#words + 1] = table.concat(keys, ", ")
    end
  end
  return words
end

--- One row per strategy; everything else is as in `f`.
---@param f moonring.MemoryFacts
---@param bytes number
---@return moonring.PlanRow[]
function plan.strategies(f, bytes)
  local rows = {}
  for _, strategy in ipairs(STRATEGIES) do
    if f.sp > 1 and not (strategy == "ulysses" and f.sp > f.model.heads) then
      rows[#rows + 1] = plan.row(over(f, f.sp, strategy),
        { changes = {}, keys = {}, short = "the same" }, bytes)
    end
  end
  return rows
end

plan.all_strategies = STRATEGIES

--- Estimated seconds that the traffic of a row's step takes.
---@param row moonring.PlanRow
---@param near number bytes per second within a machine
---@param far number bytes per second between machines
---@return number
function plan.seconds(row, near, far) return communication.seconds(row.facts, near, far) end

return plan
