--- Metrics of a step or an evaluation: name -> { sum, count }. They are added over micro-batches
-- and ranks, and divided only at the end. Ranks may have different names: a rank whose share of the
-- step is empty has none. A minimum or maximum is { value, count, "min" } or { value, count, "max"
-- }; values with count 0 are ignored.
local errors = require "moonring.base.errors"
local readings = require "moonring.base.readings"

---@class moonring.metrics
local metrics = {}

local EXTREMES = { min = math.min, max = math.max }

-- Adds one more value to a total. `mine` is the total; nil if there is none yet.
local function joined(mine, sum, count, kind)
  if not kind then
    mine = mine or { 0, 0 }
    return { mine[1] + sum, mine[2] + count }
  end
  if count == 0 then return mine end
  if not mine then return { sum, count, kind } end
  return { EXTREMES[kind](mine[1], sum), mine[2] + count, kind }
end

--- Adds the metrics `more` to `total`, in place, once `later` is read. Until then there is no wait
--- for the device.
---@param later moonring.Readings
---@param total table<string, any[]>
---@param more table
---@return table<string, any[]> total
function metrics.add_later(later, total, more)
  if type(more) ~= "table" then
    errors.fail("metrics: expected a table, name -> { sum, count }, got a ", type(more))
  end
  for name, value in pairs(more) do
    local is_pair = type(value) == "table"
    if is_pair and value[2] == nil then
      errors.fail("metric ", name, ": expected { sum, count }, got a list without a count")
    end
    local kind = is_pair and value[3] or nil
    if kind and not EXTREMES[kind] then
      errors.fail("metric ", name, ': expected { value, count, "min" } or "max", got ',
        tostring(kind))
    end
    later:want(is_pair and { value[1], value[2] } or { value }, function(numbers)
      total[name] = joined(total[name], numbers[1], numbers[2] or 1, kind)
    end)
  end
  return total
end

--- Adds the metrics `more` to `total`, in place, and returns `total`.
---@param total table<string, any[]> name -> { sum, count }, or an extreme's three values
---@param more table name -> value: a number, { sum, count } or an extreme
---@return table<string, any[]>
function metrics.add(total, more)
  local later = readings.new()
  metrics.add_later(later, total, more)
  later:read()
  return total
end

local function encode(mine)
  local lines = {}
  for name, pair in pairs(mine) do
    lines[#lines + 1] = ("%s %.17g %.17g %s"):format(name, pair[1], pair[2], pair[3] or "mean")
  end
  return table.concat(lines, "\n")
end

local function decode(text)
  local read = {}
  for name, sum, count, kind in text:gmatch "(%S+) (%S+) (%S+) (%S+)" do
    read[name] = { tonumber(sum), tonumber(count), EXTREMES[kind] and kind }
  end
  return read
end

--- Sums metrics over all ranks; the totals are bit-identical on every rank. Ranks may have
--- different names. Collective over all ranks.
---@param mine table<string, any[]>
---@param mesh moonring.Mesh
---@param level "token" | "sequence" "token": a rank has sums over its tokens; "sequence": all ranks
---   of an sp group have equal sums
---@return table<string, any[]>
function metrics.reduce(mine, mesh, level)
  local counts = level == "token" or mesh:sp_rank() == 0
  local total = {}
  for _, text in ipairs(mesh:gather(counts and encode(mine) or "")) do
    metrics.add(total, decode(text))
  end
  return total
end

--- Divides totals: name -> mean, or minimum or maximum. Names with count 0 are omitted. If the
--- rewards of chosen and rejected answers have separate counts, rewards/margins is the difference
--- of their means.
---@param total table<string, any[]>
---@return table<string, number>
function metrics.means(total)
  if type(total) ~= "table" then
    errors.fail("metrics.means: expected a table, name -> { sum, count }, got a ", type(total))
  end
  local means = {}
  for name, pair in pairs(total) do
    if pair[2] ~= 0 then means[name] = pair[3] and pair[1] or pair[1] / pair[2] end
  end
  local chosen, rejected = means["rewards/chosen"], means["rewards/rejected"]
  if chosen and rejected and not means["rewards/margins"] then
    means["rewards/margins"] = chosen - rejected
  end
  return means
end

return metrics
