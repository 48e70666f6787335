--- Makes the text of `moonring explain` for a trace: time by step and by rank, late ranks, and
-- proposals of what to change first.
local errors = require "moonring.base.errors"
local trace_advice = require "moonring.report.trace_advice"
local trace_events = require "moonring.report.trace_events"
local trace_time = require "moonring.report.trace_time"

---@class moonring.explain
local explain = {}

local MOST_COLUMNS, PROPOSALS = 8, 3

-- Appends a table of seconds: one row per part of a step (forward, ..), one column per name. Rows
-- that contain only zeros are omitted.
local function rows_of(lines, head, names, seconds_of)
  lines[#lines + 1] = ("  %-14s"):format(head)
  for _, name in ipairs(names) do lines[#lines] = lines[#lines] .. ("%10s"):format(name) end
  local sums = {}
  local function row(part, values)
    local line = ("  %-14s"):format(part)
    for _, value in ipairs(values) do line = line .. ("%10.4f"):format(value) end
    lines[#lines + 1] = line
  end
  for _, part in ipairs(trace_time.parts) do
    local values, any = {}, false
    for i in ipairs(names) do
      values[i] = seconds_of(i, part)
      sums[i], any = (sums[i] or 0) + values[i], any or values[i] >= 5e-5
    end
    if any then row(part, values) end
  end
  row("sum", sums)
  local walls = {}
  for i in ipairs(names) do walls[i] = seconds_of(i, "wall") end
  row("step", walls)
end

-- The seconds of a part on one rank in one step; the part "wall" is the whole step.
local function seconds_at(time, rank, step, part)
  if part == "wall" then return time.walls[rank][step] or 0 end
  return (time.seconds[rank][step] or {})[part] or 0
end

-- The mean of f(1), .., f(n).
local function mean(n, f)
  local sum = 0
  for i = 1, n do sum = sum + f(i) end
  return sum / n
end

local function by_step(lines, time, ranks)
  local names = {}
  for i = 1, math.min(#time.steps, MOST_COLUMNS) do names[i] = "step " .. time.steps[i] end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "Seconds of each step"
    .. (#time.steps > MOST_COLUMNS and (" (the first %d)"):format(MOST_COLUMNS) or "")
    .. (ranks > 1 and ", means over the ranks:" or ":")
  rows_of(lines, "", names, function(i, part)
    return mean(ranks, function(rank) return seconds_at(time, rank, time.steps[i], part) end)
  end)
end

local function by_rank(lines, time, ranks)
  if ranks == 1 then return end
  local names = {}
  for rank = 1, math.min(ranks, MOST_COLUMNS) do names[rank] = "rank " .. rank - 1 end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "Seconds per step of each rank"
    .. (ranks > MOST_COLUMNS and (" (the first %d)"):format(MOST_COLUMNS) or "") .. ":"
  rows_of(lines, "", names, function(rank, part)
    return mean(#time.steps, function(i) return seconds_at(time, rank, time.steps[i], part) end)
  end)
end

-- The means over ranks and steps, for each part and for the whole step ("wall").
local function means_of(time, ranks)
  local means = {}
  for _, part in ipairs { "wall", unpack(trace_time.parts) } do
    means[part] = mean(ranks, function(rank)
      return mean(#time.steps, function(i) return seconds_at(time, rank, time.steps[i], part) end)
    end)
  end
  return means
end

local function share(means, seconds)
  return ("%.4f s (%.0f %%)"):format(seconds, 100 * seconds / math.max(means.wall, 1e-12))
end

local function in_words(lines, means, tiles)
  local computing = means.forward + means.backward + means.recompute
  lines[#lines + 1] = ""
  lines[#lines + 1] = ("A step takes %.4f s: %s in forward and backward%s; %s waiting for late "
    .. "ranks; %s of communication that does not overlap with computing."):format(means.wall,
    share(means, computing), means.recompute > 0
    and (", %s of it recomputing activations"):format(share(means, means.recompute))
    or "", share(means, means.waiting), share(means, means.communication))
  if tiles.count > 0 then
    lines[#lines + 1] = ("Attention's kernels ran %d times per step and rank, %.4f s on all "
      .. "threads."):format(math.floor(tiles.count + 0.5), tiles.seconds)
  end
end

local LATE = "Rank %d is late: rank %d waits %.4f s per step for it, while it is in %s."

local function lateness(lines, time, means)
  local late = {}
  for rank, of in pairs(time.late) do
    local waiter, seconds = trace_advice.worst_waiter(of)
    seconds = seconds / #time.steps
    if seconds >= 0.01 * means.wall then
      late[#late + 1] = { rank = rank, waiter = waiter, seconds = seconds, of = of }
    end
  end
  table.sort(late, function(a, b) return a.seconds > b.seconds end)
  for _, each in ipairs(late) do
    local all, doing = 0, {}
    for _, seconds in pairs(each.of.doing) do all = all + seconds end
    for _, part in ipairs(trace_time.parts) do
      local of_part = (each.of.doing[part] or 0) / all
      if of_part >= 0.1 then doing[#doing + 1] = ("%s (%.0f %%)"):format(part, 100 * of_part) end
    end
    lines[#lines + 1] = LATE:format(each.rank - 1, each.waiter - 1, each.seconds,
      table.concat(doing, ", "))
  end
  if #late == 0 and #time.walls > 1 then
    lines[#lines + 1] = "No rank waits for another one for 1 % of the step or more."
  end
end

local function tiles_of(events, steps)
  local count, seconds = 0, 0
  for _, of in ipairs(events.tiles) do count, seconds = count + of.count, seconds + of.seconds end
  return { count = count / steps / #events.tiles, seconds = seconds / steps / #events.tiles }
end

local HEAD = "%s: steps %d to %d of %d rank%s (dp %d x sp %d)"
local CLOCKS = "; the ranks' clocks agree within %.1f us"

local function text_of(path, events)
  local time, ranks = trace_time.of(events), #events.ranks
  local of, lines = events.details, {}
  lines[1] = HEAD:format(path, of.first, of.last, ranks, ranks == 1 and "" or "s", of.dp, of.sp)
    .. (events.uncertainty > 0 and CLOCKS:format(events.uncertainty * 1e6) or "")
  if events.left_out > 0 then
    lines[#lines + 1] = ("%d spans were not recorded, so some of these times are too small")
      :format(events.left_out)
  end
  if #time.steps == 0 then errors.fail "no step of rank 0" end
  by_step(lines, time, ranks)
  by_rank(lines, time, ranks)
  local means = means_of(time, ranks)
  in_words(lines, means, tiles_of(events, #time.steps))
  lateness(lines, time, means)
  lines[#lines + 1] = ""
  lines[#lines + 1] = "What to change first:"
  local proposals = trace_advice.of(events, time, means)
  for i = 1, math.min(PROPOSALS, #proposals) do
    local each = proposals[i]
    if each.seconds > 0 then
      lines[#lines + 1] = ("  %d. %s per step: %s"):format(i, share(means, each.seconds), each.what)
      lines[#lines + 1] = "     try " .. each.try
    end
  end
  return table.concat(lines, "\n")
end

--- The complete text for a trace. Errors: INVALID_ARGUMENT if the file is not a trace.
---@param path string
---@return string
function explain.text(path)
  return trace_events.within(path, text_of, path, trace_events.read(path))
end

return explain
