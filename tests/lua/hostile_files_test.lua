-- Traces and training states from untrusted sources (run by hostile_files_test.cc). A valid file of
-- each kind is changed at one position at a time, to a value of another type or size. Reading the
-- result must succeed or raise an error that names the file. Raises one error that lists all
-- failures.
local errors = require "moonring.base.errors"
local explain = require "moonring.commands.explain"
local saved_state = require "moonring.run.checkpoint.saved_state"
local system = require "moonring.native.system"

local folder = ...
local failures, tried, refused = {}, 0, 0

local DEEP = ("["):rep(100) .. ("]"):rep(100)
local HOSTILE = { '"x"', '""', "null", "true", "[]", "{}", "[1]", '{"a":1}', "-1", "0", "0.5",
  "1e18", "1e300", "-1e300", "9007199254740993", '"\\u001b]0;x\\u0007"', '"../../x"', DEEP }

-- Calls `visit` with JSON texts of `value` in which one value is changed or removed, and with the
-- position of the change.
local MARK, EVERY = "@@here@@", 3
local function each_change(value, visit)
  local whole, turn = value, 0
  local function walk(node, place)
    for name, each in pairs(node) do
      local here = place .. "." .. tostring(name)
      node[name] = MARK
      local text = system.json_encode(whole)
      for i = turn % EVERY + 1, #HOSTILE, EVERY do -- at each position, other values
        local hostile = HOSTILE[i]
        visit((text:gsub('"' .. MARK .. '"', (hostile:gsub("%%", "%%%%")))), here .. "=" .. hostile)
      end
      turn, node[name] = turn + 1, nil
      if type(name) == "string" then visit(system.json_encode(whole), here .. " is left out") end
      node[name] = each
      if type(each) == "table" then walk(each, here) end
    end
  end
  walk(value, "")
end

-- Lua's own messages, which must not reach users.
local OWN = { "attempt to", "bad argument", "%.lua", "stack overflow", "limit must",
  "invalid order", "traceback" }

local function check(path, what, f)
  tried = tried + 1
  local began = system.clock()
  local ok, why = pcall(f)
  local words = tostring(why)
  if not ok then
    refused = refused + 1
    local bad = not errors.code(why) or not words:find(path, 1, true)
    words = errors.words(why) -- without the position, which is in this file
    for _, own in ipairs(OWN) do bad = bad or words:find(own) ~= nil end
    if bad then failures[#failures + 1] = what .. ": " .. words:sub(1, 160) end
  end
  if system.clock() - began > 20 then failures[#failures + 1] = what .. ": takes too long" end
end

local function span(name, category, from, length, args, rank)
  return { ph = "X", name = name, cat = category, ts = from, dur = length, pid = rank or 0, tid = 0,
    args = args }
end

-- Returns a trace as a run of two ranks writes it, with a call that waits for a message.
local function trace()
  local events = {}
  for rank = 0, 1 do
    for _, each in ipairs {
      span("step", "step", 0, 100, { step = 3 }, rank), span("forward", "part", 5, 40, nil, rank),
      span("wait", "waiting", 20, 10, { group = "sp", transfer = 1 }, rank),
      span(rank == 0 and "send" or "receive", "transfer", 10 + 15 * rank, 4,
        { group = "sp", peer = 1 - rank, message = 1, transfer = 1, call = 1 }, rank),
      span("all_reduce", "transfer", 12, 4, { group = "sp", call = 2, transfer = 2 }, rank),
      span("attention", "tile", 10, 5, nil, rank),
    } do events[#events + 1] = each end
  end
  return { traceEvents = events, otherData = { ranks = 2, left_out = 0, clock_uncertainty_ns = 5,
    run = { version = "x", first = 3, last = 3, sp = 2, dp = 1, has_bf16 = true,
      keys = { zero_stage = 1, bf16 = false, recompute = "none" } } } }
end

-- Returns a training state as a run writes it (closing.lua), with a shortened configuration.
local function state()
  return { step = 2, run = "a run", config_sha1 = "x", data = "digest", examples_per_step = 4,
    group = 8, config = { stage = "sft", seed = 42, dataset = { "talks" } },
    parts = { journal = { tokens = 10, since = { 1.5 }, metrics = { accuracy = { 1, 2 } },
      total_loss = 3, steps = 2, skipped = 0, losses = 2, evaluations = { { step = 1, loss = 2 } },
      last_loss = 1.5, last_evaluation = { eval_loss = 2 }, epoch = 0.5, evaluated = 1 },
      updates = { skipped = 0, in_a_row = 0 }, loss_scale = { scale = 8, steps = 1, skipped = 0 },
      checkpoints = { stale = 0, kept = { 1, 2 }, best = { metric = 1, step = 2, folder = "x" } },
      rounds = { inner = 1 }, micro_batches = { tokens = 64 }, cpu_products = "mkl" } }
end

local path = folder .. "/trace.json"
local function explained(text, what)
  system.write(path, text)
  check(path, "trace" .. what, function() explain.text(path) end)
end
local text = system.json_encode(trace())
system.write(path, text)
assert(explain.text(path):find "rank 1", "the whole trace is not explained")
each_change(trace(), explained)
for _, broken in ipairs { "", "[]", "1", "null", "{", DEEP, text:sub(1, #text / 2), '"x"' } do
  explained(broken, "=" .. broken:sub(1, 20))
end

-- Calculates with the numbers of a state, as the code that reads it does.
local function reckon(value)
  for _, each in pairs(value) do
    if type(each) == "table" then reckon(each) end
  end
end
path = folder .. "/training_state.json"
local function read(changed, what)
  system.write(path, changed)
  check(path, "state" .. what, function()
    local found = saved_state.read(folder)
    reckon(found)
    for _, each in ipairs { found.step + 1, found.parts.updates and found.parts.updates.skipped + 1
      or 0, #found.parts, ("%d"):format(found.step) } do assert(each) end
    local resumed = { folder = folder, parts = found.parts }
    for name in pairs(found.parts) do
      if name == "updates" or name == "journal" then
        saved_state.load_part(resumed, name, { load_state = function(_, part)
          return part.skipped + 1 + (part.tokens or 0)
        end })
      end
    end
  end)
end
read(system.json_encode(state()), "")
assert(refused > 0 and #failures == 0 or #failures > 0)
each_change(state(), read)
for _, broken in ipairs { "", "[]", "1", "null", "{", DEEP, '"x"', '{"parts":[]}' } do
  read(broken, "=" .. broken:sub(1, 20))
end

if tried < 1000 then failures[#failures + 1] = "only " .. tried .. " were tried" end
if #failures > 0 then
  error(#failures .. " of " .. tried .. ":\n" .. table.concat(failures, "\n", 1,
    math.min(#failures, 40)), 0)
end
