--- Finds the line of an objective to suspect, for what verdicts.lua found. A layout's step is made
-- once more in processes that record what each line computes (trace.lua), and so is the base's. A
-- value is consistent with the base if over the ranks and micro-batches of the layout
--   additive    its elements are those of the base, divided among them (rows of tokens, documents)
--   partial     they are parts that add up to the base's
--   replicated  it is equal on the ranks of an sp group, and otherwise additive
--   constant    it is the same everywhere, also in the base
-- The first value that is none of these is suspected. If there is none, the objective returned the
-- wrong kind for its level, or a gradient is inconsistent: that nearest to the loss is suspected.
local fingerprints = require "moonring.commands.check.fingerprints"
local layouts = require "moonring.commands.check.layouts"
local system = require "moonring.native.system"

---@class moonring.check_suspects
local suspects = {}

local TRACE = "require('moonring.commands.check.trace').main(...)"

-- Traces a layout. Returns what each rank recorded.
local function traced(folder, name)
  local layout
  for _, each in ipairs(layouts.all) do layout = each.name == name and each or layout end
  local process = layouts.process(layout.process)
  layouts.start(folder, process, TRACE, name)
  local ranks = {}
  for r = 0, process.ranks - 1 do
    local path = ("%s/%s.trace%d.json"):format(folder, name, r)
    if not system.exists(path) then return nil end
    ranks[r + 1] = system.json_decode(system.read(path), path)
  end
  return ranks
end

local function first_pass(ranks)
  local list = {}
  for r, each in ipairs(ranks) do list[r] = each.first end
  return list
end

local function suspect(entry, words) return { place = entry.place, words = words } end

local function called(entry)
  return entry.name:find "^[%a ]+$" and "`" .. entry.name .. "`" or entry.name
end

-- The two passes of one process must be equal.
local function of_repeat(base)
  local second = fingerprints.by_key(base[1].second)
  for _, entry in ipairs(base[1].first) do
    local again = second[entry.key] and second[entry.key][entry.call]
    if entry.value and not (again and fingerprints.same(entry.value, again.value)) then
      return suspect(entry, called(entry)
        .. " gives another value when the same step is made again")
    end
  end
end

local WANTED = {
  token = "this rank's share, as level token expects",
  sequence = "equal on all ranks of an sp group, as level sequence expects",
}

-- Whether a returned number has the kind of its level.
local function fits(kinds, level)
  if level == "token" then return kinds.additive or kinds.partial end
  return kinds.replicated
end

-- The first value that is inconsistent; then what is returned in the wrong kind.
local function of_values(compared, level)
  for _, each in ipairs(compared) do
    if each.kinds and not next(each.kinds) then
      return suspect(each.entry, called(each.entry)
        .. " is neither a part of its value at sp 1 nor equal to it: " .. each.shown)
    end
  end
  for _, each in ipairs(compared) do
    local name, kinds = each.entry.name, each.kinds
    if kinds and name == "returned count" and not kinds.replicated then
      return suspect(each.entry, "the count is not that of the whole micro-batch on every rank: "
        .. each.shown)
    elseif kinds and (name == "returned loss" or name:find "^metric ") and not fits(kinds, level)
      and not kinds.constant then
      return suspect(each.entry, name .. " is not " .. WANTED[level] .. ": " .. each.shown)
    end
  end
end

-- The inconsistent gradient that is nearest to the loss.
local function of_gradients(compared)
  for i = #compared, 1, -1 do
    local each = compared[i]
    local kinds = each.gradient_kinds
    local replicated = each.kinds and each.kinds.replicated and not each.kinds.additive
    local wrong = kinds and not next(kinds)
      or kinds and replicated and not each.kinds.constant
      and not (kinds.replicated or kinds.constant)
    if wrong then
      return suspect(each.entry, ("the gradient of %s is wrong: %s"):format(called(each.entry),
        replicated and "its value is the same on every rank, and its gradient is only that of this "
          .. "rank's loss" or "it is neither a part of the gradient at sp 1 nor equal to it"))
    end
  end
end

-- "FILE:LINE" of the checked file in a message.
local function place_in(text, target)
  local name = target:match "[^/]+$"
  local line = text:match(name:gsub("%p", "%%%0") .. ":(%d+)")
  return line and target .. ":" .. line
end

-- The fault that is explained: the simplest cause first.
local ORDER = { failure = 1, ["repeat"] = 2, state = 3, count = 4, loss = 5, metric = 6,
  gradient = 7, difference = 8 }

local function worst(faults)
  local found
  for _, fault in ipairs(faults) do
    if not found or ORDER[fault.kind] < ORDER[found.kind] then found = fault end
  end
  return found
end

-- The layout with the same micro-batches on one rank, or else the base.
local ALONE = { sp2each = "each", sp2packed = "packed" }

-- The layout that a faulty one is compared with: one with the same micro-batches, if that is right.
local function reference_of(fault, found)
  local name = ALONE[layouts.all[fault.layout].name]
  for i, layout in ipairs(layouts.all) do
    if layout.name == name and found.rows[i] and #found.rows[i].faults == 0 then return name end
  end
  return "sp1"
end

local function of_layout(folder, found, fault)
  local base = traced(folder, reference_of(fault, found))
  local other = traced(folder, layouts.all[fault.layout].name)
  if not base or not other or base[1].failed or other[1].failed then return nil end
  local compared = fingerprints.compare(first_pass(base), first_pass(other),
    layouts.process(layouts.all[fault.layout].process).sp)
  local level = base[1].level
  return of_values(compared, level) or of_gradients(compared)
end

-- A step that failed: its first value that is not finite, or the first that left the graph.
local function of_failure(ranks)
  local entries = ranks and ranks[1].failed or {}
  for _, entry in ipairs(entries) do
    if entry.value and not entry.value.finite then
      return suspect(entry, called(entry) .. " gives numbers that are not finite")
    end
  end
  for _, entry in ipairs(entries) do
    if entry.breaks then return suspect(entry, called(entry) .. " leaves the graph") end
  end
end

local function of_fault(plan, folder, results, found, fault)
  if fault.kind == "failure" then
    local place = place_in(results[fault.layout].output, plan.target)
    if place then return { place = place, words = "the error is raised there" } end
    return of_failure(traced(folder, layouts.all[fault.layout].name))
  end
  if fault.kind == "difference" then
    local packed = traced(folder, "packed")
    local wrong = packed and packed[1].wrong
    return wrong and wrong.place and { place = wrong.place, words = ("%s loses a part of the "
      .. "gradient: the loss depends on its argument, and its gradient does not")
      :format(called(wrong)) }
  end
  if fault.kind == "state" then return nil end
  if fault.kind == "repeat" then
    local base = traced(folder, "sp1")
    return base and not base[1].failed and of_repeat(base) or nil
  end
  return of_layout(folder, found, fault)
end

-- The first line of the function to suspect, if no line is found.
local function fallback(plan, folder, results, fault)
  local result = results[1].result
  if result and not result.metrics then
    return { place = plan.target .. ":1", words = "the script's own loop, which is not traced" }
  end
  local base = traced(folder, "sp1")
  local functions = base and base[1].functions or {}
  local place = fault.kind == "state" and functions.load_state or functions.loss
  return { place = place or plan.place or plan.target .. ":1",
    words = "the function that begins here" }
end

--- The lines to suspect; empty if nothing is wrong.
---@param plan moonring.CheckPlan
---@param folder string
---@param results moonring.LayoutResult[]
---@param found { faults: moonring.CheckFault[] }
---@return { place: string, words: string }[]
function suspects.of(plan, folder, results, found)
  local fault = worst(found.faults)
  if not fault then return {} end
  local own_loop = results[1].result and not results[1].result.metrics
  return { not own_loop and of_fault(plan, folder, results, found, fault)
    or fallback(plan, folder, results, fault) }
end

return suspects
