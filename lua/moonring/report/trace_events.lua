--- Reads those events of a run's trace that trace_time.lua needs: the spans of each rank's main
-- thread, and the transfers. base/trace/trace_json.h describes the file format.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.trace_events
local trace_events = {}

--- A span; times are in seconds.
---@class moonring.TraceSpan
---@field name string
---@field category string
---@field begins number
---@field ends number
---@field args table<string, any>

---@class moonring.TraceEvents
---@field path string
---@field details table properties of the run: version, first, last, sp, dp, keys, has_bf16
---@field left_out integer spans that did not fit into the recorder
---@field uncertainty number largest error of the ranks' clocks, in seconds
---@field ranks moonring.TraceSpan[][] by rank, from 1: spans of its main thread, outer ones first
---@field travelled moonring.TraceSpan[][] by rank, from 1: transfers
---@field tiles { count: integer, seconds: number }[] by rank: attention kernels on all threads

local NONE = "%s is not a trace of Moonring (the key trace), or not complete"

-- Bounds far above the values of any run: no run wrote a file that exceeds them.
local MOST_RANKS, MOST_COUNT, MOST_SECONDS = 65536, 2 ^ 53, 1e9

local function is_number(value, least, most)
  return type(value) == "number" and value >= least and value <= most
end
local function is_whole(value, least, most)
  return is_number(value, least, most) and value % 1 == 0
end

-- Whether the metadata of a file is well-formed.
local function is_head(other)
  local run = type(other) == "table" and other.run
  return type(run) == "table" and type(run.keys) == "table"
    and is_whole(other.ranks, 1, MOST_RANKS) and is_whole(other.left_out, 0, MOST_COUNT)
    and is_number(other.clock_uncertainty_ns, 0, MOST_SECONDS * 1e9)
    and is_whole(run.first, 0, MOST_COUNT) and is_whole(run.last, 0, MOST_COUNT)
    and is_whole(run.sp, 1, MOST_RANKS) and is_whole(run.dp, 1, MOST_RANKS)
end

-- Whether an event is a well-formed span.
local function is_span(event)
  return type(event.name) == "string" and type(event.cat) == "string"
    and (event.args == nil or type(event.args) == "table")
    and is_number(event.ts, -MOST_SECONDS * 1e6, MOST_SECONDS * 1e6)
    and is_number(event.dur, 0, MOST_SECONDS * 1e6)
    and (event.cat ~= "step" or is_whole(event.args and event.args.step, 0, MOST_COUNT))
end

local function add(events, event)
  if type(event) ~= "table" then errors.fail "no event" end
  if event.ph ~= "X" then return end
  if not is_whole(event.pid, 0, MOST_COUNT) or not is_span(event) then errors.fail "no span" end
  local rank = event.pid + 1
  if not events.ranks[rank] then return end
  local begins = event.ts * 1e-6
  local span = { name = event.name, category = event.cat, begins = begins,
    ends = begins + event.dur * 1e-6, args = event.args or {} }
  if span.category == "tile" then
    local tiles = events.tiles[rank]
    tiles.count, tiles.seconds = tiles.count + 1, tiles.seconds + span.ends - span.begins
  elseif span.category == "transfer" then
    table.insert(events.travelled[rank], span)
  elseif event.tid == 0 then
    table.insert(events.ranks[rank], span)
  end
end

local function outer_first(a, b)
  if a.begins ~= b.begins then return a.begins < b.begins end
  return a.ends > b.ends
end

-- Returns an iterator over the events of a file. It reads the format that a run writes, with one
-- event per line.
local function each_event(path, text)
  local head = '{"displayTimeUnit":"ms","traceEvents":[\n'
  local _, behind = text:find(head, 1, true)
  local from, to = text:find('\n],\n"otherData":', 1, true)
  if behind and from and text:sub(1, #head) == head then
    local other = system.json_decode(text:sub(to + 1):match "^(.*)}%s*$" or "", path)
    local lines = text:sub(behind + 1, from):gmatch "([^\n]+)\n"
    return other, function()
      local line = lines()
      -- Flow arrows and row names are only for display.
      while line and not line:find('{"ph":"X"', 1, true) do line = lines() end
      return line and system.json_decode((line:gsub(",$", "")), path)
    end
  end
  local whole = system.json_decode(text, path)
  local i, all = 0, type(whole) == "table" and whole.traceEvents
  if type(all) ~= "table" then errors.fail "no events" end
  return type(whole) == "table" and whole.otherData, function()
    i = i + 1
    return all[i]
  end
end

--- Calls f, which uses the contents of a trace. If f fails, the trace is malformed, and the error
--- becomes INVALID_ARGUMENT with the file.
---@param path string
---@param f function
---@param ... any the arguments of f
---@return any the result of f
function trace_events.within(path, f, ...)
  local ok, result = pcall(f, ...)
  if ok then return result end
  local code = errors.code(result)
  if code and code ~= "INVALID_ARGUMENT" then error(result, 0) end -- a limit, or a request to stop
  errors.fail(NONE:format(path))
end

--- Reads a trace. Errors: INVALID_ARGUMENT if the file is not a trace of a run.
---@param path string
---@return moonring.TraceEvents
function trace_events.read(path)
  local text = system.read(path)
  local ok, other, next_event = pcall(each_event, path, text)
  if not ok or not is_head(other) then errors.fail(NONE:format(path)) end
  local events = { path = path, details = other.run, left_out = other.left_out,
    uncertainty = other.clock_uncertainty_ns * 1e-9, ranks = {}, travelled = {}, tiles = {} }
  for rank = 1, other.ranks do
    events.ranks[rank], events.travelled[rank] = {}, {}
    events.tiles[rank] = { count = 0, seconds = 0 }
  end
  trace_events.within(path, function()
    for event in next_event do add(events, event) end
  end)
  for _, spans in ipairs(events.ranks) do table.sort(spans, outer_first) end
  return events
end

return trace_events
