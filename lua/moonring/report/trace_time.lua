--- Where the time of traced steps went: each moment of a rank's own thread counts for one part, so
-- the parts of a step add up to it.
--
-- A call that waits is cut in two: until the last rank that it needs has come to it, the rank waits
-- for that one; what is left is communication that nothing was computed beside (exposed). Where the
-- late rank was itself waiting, the one that it waited for is the late one.
---@class moonring.trace_time
---@field parts string[] in the order in which they are shown
local trace_time = {}

---@class moonring.TraceTime
---@field steps integer[] their numbers
---@field seconds table<integer, table<string, number>>[] by rank from 1, step and part
---@field walls table<integer, number>[] by rank and step
---@field exposed table<string, number>[] by rank: communication by what it was for, in all steps
---@field late table<integer, moonring.TraceLate> by rank from 1: those that others waited for

---@class moonring.TraceLate
---@field waited table<integer, number> by rank from 1: seconds that it waited, in all steps
---@field doing table<string, number> what the late rank did meanwhile: part -> seconds

--- The parts, in the order in which they are shown.
trace_time.parts = { "data", "forward", "recompute", "backward", "optimizer", "rollouts",
  "evaluation", "saving", "waiting", "communication", "other" }

local WHOLE = { rollouts = true, evaluation = true, saving = true }
local AREAS = { attention = "attention", layer = "weights", head = "weights",
  gradients = "gradients" }

-- What is known of a moment within `span`, of what is known around it.
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

-- Calls visit(from, to, here) for each stretch of time in which the innermost span is the same.
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

-- When each rank came to each call, and to each message as its sender and receiver; and for a
-- rank's wait the keys of what it waits for.
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

-- The last other rank to come to what a wait needs, and when.
local function last_of(came, needs, rank, span)
  local last, when
  for _, key in ipairs(needs[rank][span.args.group .. "|" .. span.args.transfer] or {}) do
    for other, time in pairs(came[key]) do
      if other ~= rank and (not when or time > when) then last, when = other, time end
    end
  end
  return last, when
end

-- The first of sorted stretches that ends after a time.
local function first_after(stretches, time)
  local low, high = 1, #stretches + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if stretches[middle].to > time then high = middle else low = middle + 1 end
  end
  return low
end

-- Puts the seconds from..to that `waiter` waits for `rank` down to those who are late.
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

-- A rank's time as stretches of one part each, with whom it waits for in `late`.
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

--- Sorts out the time of a trace.
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
