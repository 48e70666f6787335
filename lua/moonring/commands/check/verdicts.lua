--- Compares the results of the layouts with the base, and collects what is wrong.

local layouts = require "moonring.commands.check.layouts"

---@class moonring.check_verdicts
local verdicts = {}

-- In fp64 another order of additions changes a sum of thousands of numbers by about 1e-14 of it.
-- EQUAL leaves room for cancellation. A difference below ROUNDED is what an objective that computes
-- in fp32 has: it is shown and not accused.
local EQUAL, ROUNDED = 1e-9, 1e-5

---@class moonring.CheckFault
---@field kind "failure" | "loss" | "count" | "gradient" | "metric" | "repeat" | "state"
---   | "difference"
---@field layout integer
---@field words string
---@field metric? string

---@class moonring.CheckRow
---@field loss? number
---@field norm? number of the gradient
---@field error? number the largest relative difference of a parameter's gradient
---@field parameter? string whose it is
---@field verdict string

local function relative(a, b, least)
  if a == b then return 0 end
  if type(a) ~= "number" or type(b) ~= "number" or a ~= a or b ~= b then return math.huge end
  return math.abs(a - b) / math.max(math.abs(b), least or 1e-12)
end

local function norm_of(gradients)
  local sum = 0
  for _, gradient in pairs(gradients) do sum = sum + gradient:square():sum():item() end
  return math.sqrt(sum)
end

-- The largest difference of a parameter's gradient, relative to its norm. A gradient that is small
-- beside the whole is compared with a thousandth of that: its own rounding is not.
local function gradient_error(gradients, base, whole)
  local worst, name = 0, nil
  local names = {}
  for each in pairs(base) do names[#names + 1] = each end
  for each in pairs(gradients) do names[#names + 1] = not base[each] and each or nil end
  table.sort(names)
  for _, each in ipairs(names) do
    local a, b = gradients[each], base[each]
    local size = b and b:norm():item() or 0
    local distance = a and b and (a - b):norm():item() or (a or b):norm():item()
    local error = distance / math.max(size, 1e-3 * whole, 1e-300)
    if error > worst or error ~= error then worst, name = error, each end
  end
  return worst, name
end

-- The count is summed over dp, and must be equal on the ranks of an sp group.
local function counts_differ(counts, base, layout)
  local ranks_of_sp, whole = layouts.process(layout.process).sp, 0
  for r = 1, #counts, ranks_of_sp do whole = whole + counts[r] end
  for r = 1, #counts, ranks_of_sp do
    if counts[r] ~= counts[r + ranks_of_sp - 1] then return true end
  end
  return whole ~= base
end

local function add(found, kind, layout, words, more)
  local fault = { kind = kind, layout = layout, words = words }
  for name, value in pairs(more or {}) do fault[name] = value end
  found.faults[#found.faults + 1] = fault
  found.rows[layout].faults[#found.rows[layout].faults + 1] = fault
end

local function compare_metrics(found, i, metrics, base)
  local names = {}
  for name in pairs(base) do names[#names + 1] = name end
  for name in pairs(metrics) do names[#names + 1] = base[name] == nil and name or nil end
  table.sort(names)
  for _, name in ipairs(names) do
    if relative(metrics[name], base[name], 1e-9) > ROUNDED then
      add(found, "metric", i, ("metric %s: %s, and %s at sp 1"):format(name,
        tostring(metrics[name]), tostring(base[name])), { metric = name })
    end
  end
end

local function compare(found, i, one, base, layout)
  local row, result = found.rows[i], one.result
  -- A loss near 0 is compared with the size of its gradient.
  local loss_error = relative(result.loss, base.result.loss, 1e-3 * found.rows[1].norm)
  row.error, row.parameter = gradient_error(one.gradients, base.gradients, found.rows[1].norm)
  row.rounded = math.max(loss_error, row.error)
  if counts_differ(result.counts, base.result.counts[1], layout) then
    add(found, "count", i, ("count: %s on the ranks, and %d at sp 1"):format(
      table.concat(result.counts, ", "), base.result.counts[1]))
  end
  if loss_error > ROUNDED then
    add(found, "loss", i, ("loss: %.12g, and %.12g at sp 1"):format(result.loss, base.result.loss))
  end
  if row.error > ROUNDED then
    add(found, "gradient", i, ("gradient of %s: relative difference %.1e"):format(row.parameter,
      row.error))
  end
  compare_metrics(found, i, result.metrics or {}, base.result.metrics or {})
end

-- The base: does it repeat, and is its gradient that of its loss?
local function judge_base(found, base)
  local result, again = base.result, base.result.again
  if result.loss ~= again.loss or again.parameter then
    add(found, "repeat", 1, ("the same step again: loss %.12g, and %.12g before%s"):format(
      again.loss, result.loss, again.parameter and "; gradient of " .. again.parameter
      .. " differs" or ""))
  elseif result.counts[1] ~= again.counts[1] then
    add(found, "count", 1, ("count: %s, and %s when it is called again"):format(again.counts[1],
      result.counts[1]))
  elseif result.state ~= again.state then
    add(found, "state", 1, "state: load_state does not restore what state saved: after the same "
      .. "step the state is another")
  end
  for _, one in ipairs(result.differences) do
    if one.verdict == "differs" then
      add(found, "difference", 1, ("the gradient is not that of the loss: along a direction %.9g, "
        .. "by finite differences %.9g"):format(one.analytic, one.numeric))
      break
    end
  end
end

--- Judges all results.
---@param results moonring.LayoutResult[]
---@return { rows: moonring.CheckRow[], faults: moonring.CheckFault[] }
function verdicts.of(results)
  local found = { rows = {}, faults = {} }
  for i, one in ipairs(results) do
    local row = { faults = {} }
    found.rows[i] = row
    if one.failure then
      add(found, "failure", i, one.failure)
    else
      row.loss, row.norm = one.result.loss, norm_of(one.gradients)
      if i == 1 then judge_base(found, one) else
        compare(found, i, one, results[1], layouts.all[i])
      end
    end
    row.verdict = #row.faults > 0 and "DIFFERS" or (row.rounded or 0) > EQUAL and "fp32?" or "equal"
  end
  return found
end

return verdicts
