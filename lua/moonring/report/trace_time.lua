--- Splits the time of traced steps into components, such as forward or waiting. Each moment of a
-- rank's main thread counts for one component, so the components of a step add up to its duration.
--
-- The time of a call that waits has two parts. Until the last rank that it needs has made its own
-- call, the rank waits for that rank. The rest is exposed communication, which does not overlap
-- with computing. If the late rank was itself waiting, the rank that it waited for counts as late.
---@class moonring.trace_time
---@field parts string[] the components, in display order
local trace_time = {}

---@class moonring.TraceTime
---@field steps integer[] step numbers
---@field seconds table<integer, table<string, number>>[] by rank from 1, step and component
---@field walls table<integer, number>[] by rank and step
---@field exposed table<string, number>[] by rank: exposed communication by purpose, in all steps
---@field late table<integer, moonring.TraceLate> by rank from 1: ranks that others waited for

---@class moonring.TraceLate
---@field waited table<integer, number> by waiting rank from 1: seconds, in all steps
---@field doing table<string, number> what the late rank did in that time: component -> seconds

--- The components, in display order.
trace_time.parts = { "data", "forward", "recompute", "backward", "optimizer", "rollouts",
  "evaluation", "saving", "waiting", "communication", "other" }

local WHOLE = { rollouts = true, evaluation = true, saving = true }
local AREAS = { attention = "attention", layer = "weights", head = "weights",
  gradients = "gradients" }

-- The component, area and step that count for a moment in `span`, derived from those of the
-- enclosing span.
local function within(around, span)
  local here = { part = around.part, area = around.area, step = around.step, span = span }
  local category = span.category
  if category == "step" then here.step = span.args.step end
  if category == "part" and not WHOLE[here.part] then
    here.part = span.name == "gradient sum" and "communication" or span.name
  end
  if span.name == "gradient sum" then here.area = "gradients" end
  if span.name == "optimizer" then here.area = "optimizer" end
  here.area = AREAS[category] or here.area
  if span.name == "layer recompute" and not WHOLE[here.part] then here.part = "recompute" end
  if category == "starting" and not WHOLE[here.part] then here.part = "communication" end
  return here
end

-- Calls visit(from, to, here) for each interval in which the innermost span is the same.
local function each_stretch(spans, visit)
  local stack, at = { { part = "other" } }, 0
  local function reach(time)
    if time > at then visit(at, time, stack[#stack]) end
    at = math.max(at, time)
  end
  for _, span in ipairs(spans) do
    while #stack > 1 and stack[#stack].span.ends <= span.begins do
      reach(stack[#stack].span.ends)
      table.remove(stack)
    end
    reach(span.begins)
    stack[#stack + 1] = within(stack[#stack], span)
  end
  while #stack > 1 do
    reach(stack[#stack].span.ends)
    table.remove(stack)
  end
end

local function message(group, from, to, number)
  return ("%s|%d|%d|%d"):format(group, from, to, number)
end

-- Makes two indices. `came`: for each collective call and message, when each rank made its call.
-- `needs`: for each rank and wait, the keys of the calls and messages that it waits for.
local function index(events)
  local came, needs = {}, {}
  for rank, spans in ipairs(events.travelled) do
    needs[rank] = {}
    for _, span in ipairs(spans) do
      local a = span.args
      local key
      if span.name == "send" then
        key = message(a.group, rank - 1, a.peer, a.message)
      elseif span.name == "receive" then
        key = message(a.group, a.peer, rank - 1, a.message)
      else
        key = a.group .. "|" .. a.call
      end
      came[key] = came[key] or {}
      came[key][rank] = span.begins
      local of = a.group .. "|" .. a.transfer
      needs[rank][of] = needs[rank][of] or {}
      table.insert(needs[rank][of], key)
    end
  end
  return came, needs
end

-- Of the other ranks that a wait needs, the one that made its call last, and the time of the call.
local function last_of(came, needs, rank, span)
  local last, when
  for _, key in ipairs(needs[rank][span.args.group .. "|" .. span.args.transfer] or {}) do
    for other, time in pairs(came[key]) do
      if other ~= rank and (not when or time > when) then last, when = other, time end
    end
  end
  return last, when
end

-- The index of the first of the sorted intervals that ends after a given time.
local function first_after(stretches, time)
  local low, high = 1, #stretches + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if stretches[middle].to > time then high = middle else low = middle + 1 end
  end
  return low
end

-- Attributes seconds to the ranks that are late: those from `from` to `to`, in which `waiter` waits
-- for `rank`.
local function blame(found, ranks, waiter, rank, from, to, depth)
  local stretches = ranks[rank]
  for i = first_after(stretches, from), #stretches do
    local each = stretches[i]
    local begins, ends = math.max(each.from, from), math.min(each.to, to)
    if ends <= begins then return end
    if each.late and depth < #ranks then
      blame(found, ranks, waiter, each.late, begins, ends, depth + 1)
    elseif rank ~= waiter then
      local late = found.late[rank] or { waited = {}, doing = {} }
      found.late[rank] = late
      late.waited[waiter] = (late.waited[waiter] or 0) + ends - begins
      late.doing[each.part] = (late.doing[each.part] or 0) + ends - begins
    end
  end
end

-- Splits a rank's time into intervals of one component each. In an interval of waiting, `late` is
-- the rank that it waits for.
local function stretches_of(events, rank, came, needs)
  local list = {}
  local function put(from, to, here, part, late)
    if to <= from or not here.step then return end
    list[#list + 1] = { from = from, to = to, part = part, late = late, step = here.step,
      area = here.area or "the rest" }
  end
  each_stretch(events.ranks[rank], function(from, to, here)
    if not here.span or here.span.category ~= "waiting" then
      return put(from, to, here, here.part)
    end
    local late, when = last_of(came, needs, rank, here.span)
    local until_late = math.min(math.max(when or from, from), to)
    put(from, until_late, here, "waiting", late)
    put(until_late, to, here, "communication")
  end)
  return list
end

--- Breaks down the time of a trace.
---@param events moonring.TraceEvents
---@return moonring.TraceTime
function trace_time.of(events)
  local came, needs = index(events)
  local found = { steps = {}, seconds = {}, walls = {}, exposed = {}, late = {} }
  local ranks = {}
  for rank, spans in ipairs(events.ranks) do
    local seconds, walls, exposed = {}, {}, {}
    for _, span in ipairs(spans) do
      if span.category == "step" then
        local step = span.args.step
        walls[step], seconds[step] = span.ends - span.begins, {}
        if rank == 1 then found.steps[#found.steps + 1] = step end
      end
    end
    ranks[rank] = stretches_of(events, rank, came, needs)
    for _, each in ipairs(ranks[rank]) do
      local of, length = seconds[each.step], each.to - each.from
      of[each.part] = (of[each.part] or 0) + length
      if each.part == "communication" then
        exposed[each.area] = (exposed[each.area] or 0) + length
      end
    end
    found.seconds[rank], found.walls[rank], found.exposed[rank] = seconds, walls, exposed
  end
  for waiter, stretches in ipairs(ranks) do
    for _, each in ipairs(stretches) do
      if each.late then blame(found, ranks, waiter, each.late, each.from, each.to, 1) end
    end
  end
  return found
end

return trace_time
