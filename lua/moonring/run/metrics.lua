--- Metrics of a step or an evaluation: name -> { sum, count }, added up over micro-batches and ranks. Nothing is divided before the end.
-- Ranks may hold different names (one whose share of the step is empty has none).
local readings = require "moonring.run.readings"

local metrics = {}

--- Adds `more` to `total`, in place, once `later` (a moonring.readings) is read. A value is { sum, count }, each a number or a tensor of one element; a tensor of
-- the two; or a sum by itself, which counts once.
function metrics.add_later(later, total, more)
  for name, value in pairs(more) do
    local is_pair = type(value) == "table"
    if is_pair and value[2] == nil then error("INVALID_ARGUMENT: metric " .. name .. ": wanted { sum, count }, got a list without a count", 0) end
    later:want(is_pair and value or { value }, function(numbers)
      local mine = total[name] or { 0, 0 }
      total[name] = { mine[1] + numbers[1], mine[2] + (numbers[2] or 1) }
    end)
  end
  return total
end

--- The same at once.
function metrics.add(total, more)
  local later = readings.new()
  metrics.add_later(later, total, more)
  later:read()
  return total
end

local function encode(mine)
  local lines = {}
  for name, pair in pairs(mine) do lines[#lines + 1] = ("%s %.17g %.17g"):format(name, pair[1], pair[2]) end
  return table.concat(lines, "\n")
end

local function decode(text)
  local read = {}
  for name, sum, count in text:gmatch "(%S+) (%S+) (%S+)" do read[name] = { tonumber(sum), tonumber(count) } end
  return read
end

--- The totals over all ranks, the same on each; in the order of ranks, so bit for bit. `level`: "token" (each rank holds its own tokens' share) or
-- "sequence" (the ranks of an sp group hold the same, which counts once). Every rank must call it.
function metrics.reduce(mine, mesh, level)
  local counts = level == "token" or mesh:sp_rank() == 0
  local total = {}
  for _, text in ipairs(mesh:gather(counts and encode(mine) or "")) do metrics.add(total, decode(text)) end
  return total
end

--- name -> mean, those without a count left out. Where rewards of either kind are counted apart, as KTO does, their margin is the difference of the means.
function metrics.means(total)
  local means = {}
  for name, pair in pairs(total) do
    if pair[2] ~= 0 then means[name] = pair[1] / pair[2] end
  end
  local chosen, rejected = means["rewards/chosen"], means["rewards/rejected"]
  if chosen and rejected and not means["rewards/margins"] then means["rewards/margins"] = chosen - rejected end
  return means
end

return metrics
