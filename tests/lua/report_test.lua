-- The components of a report: report_test.lua SECTION FOLDER.
local section, folder = arg[1], arg[2]
local system = require "moonring.native.system"
local sections = {}

local function same(got, wanted, what)
  got, wanted = system.json_encode(got), system.json_encode(wanted)
  if got ~= wanted then error(("%s: got %s, expected %s"):format(what, got, wanted), 2) end
end

-- A curve with many points is reduced to a few thousand: its ends, the minimum and maximum of all,
-- and those of each small group of neighbors, so that the drawn line covers the range of the
-- values.
function sections.curve()
  local curve = require("moonring.report.curve").new()
  local function value(x) return x == 7777 and 50 or x == 4444 and -50 or math.sin(x / 500) end
  local COUNT = 20000
  for x = 1, COUNT do curve:add(x, x == 123 and system.null or value(x)) end
  same(curve.points, COUNT, "points")
  assert(#curve.x <= 3000 and #curve.x >= 1000, #curve.x)
  same({ curve.x[1], curve.x[#curve.x] }, { 1, COUNT }, "ends")
  local least, most, none = 0, 0, 0
  for i, x in ipairs(curve.x) do
    if curve.y[i] == system.null then
      none = none + 1
    else
      same(curve.y[i], value(x), "the value at " .. x)
      least, most = math.min(least, curve.y[i]), math.max(most, curve.y[i])
    end
    assert(i == 1 or (x > curve.x[i - 1] and x - curve.x[i - 1] < 100), x)
  end
  same({ least, most, none }, { -50, 50, 1 }, "spikes and gaps")
  -- After a resume, repeated steps replace the earlier ones.
  local again = require("moonring.report.curve").new()
  for _, x in ipairs { 1, 2, 3, 4, 3, 4, 5 } do again:add(x, 10 * x) end
  same({ again.x, again.y, again.points }, { { 1, 2, 3, 4, 5 }, { 10, 20, 30, 40, 50 }, 5 },
    "again")
end

-- The least, the greatest, the first and the last value are exact, however many points were
-- removed, also with values that are not finite.
function sections.curve_extremes()
  local curve = require("moonring.report.curve").new()
  local xs, ys, seed = {}, {}, 7
  local function random()
    seed = (seed * 16807) % 2147483647
    return seed / 2147483647
  end
  local function check(what)
    local least, most
    for i, y in ipairs(ys) do
      if y ~= system.null and (not least or y < least.y) then least = { x = xs[i], y = y } end
      if y ~= system.null and (not most or y > most.y) then most = { x = xs[i], y = y } end
    end
    same({ curve.least, curve.most }, { least, most }, what)
    same({ curve.x[1], curve.y[1], curve.x[#curve.x], curve.y[#curve.y] },
      { xs[1], ys[1], xs[#xs], ys[#ys] }, what .. ": ends")
  end
  for step = 1, 30000 do
    xs[step] = step
    ys[step] = random() < 0.01 and system.null or random() - step / 3e4
    curve:add(step, ys[step])
    if step % 777 == 0 then check("step " .. step) end
  end
  -- A run that resumes after step 20000 leaves out the least value, which came later.
  for i = 20001, #xs do xs[i], ys[i] = nil, nil end
  xs[20001], ys[20001] = 20001, 0.5
  curve:add(20001, 0.5)
  assert(curve.least.x <= 20000 and curve.least.y > -20000 / 3e4, "the least after a resume")
  -- Of two evaluations at the same step the curve has the later one; both count as extremes.
  local twice = require("moonring.report.curve").new()
  for _, each in ipairs { { 10, 3 }, { 20, 1 }, { 20, 2 } } do twice:add(each[1], each[2]) end
  same({ twice.x, twice.y, twice.least }, { { 10, 20 }, { 3, 2 }, { x = 20, y = 1 } }, "twice")
  local none = require("moonring.report.curve").new()
  none:add(1, system.null)
  assert(none.least == nil and none.most == nil, "no finite value")
end

-- A run's status: from run_state.json and the lock, or for older runs from the log.
function sections.run_status()
  local run_status = require "moonring.report.run_status"
  local trainer = require "moonring.native.trainer"
  local dir = folder .. "/status"
  system.make_folder(dir)
  local function status(state, standing) return run_status.of(dir, state, standing or {}) end
  local function resumable(step)
    local at = ("%s/checkpoint-%d"):format(dir, step)
    system.make_folder(at)
    system.write(at .. "/manifest.json", "{}")
    system.write(at .. "/training_state.json", "{}")
  end
  local function expect(found, word, part, checkpoint)
    same(found.word, word, part)
    assert(found.reason:find(part, 1, true), found.reason)
    same(found.checkpoint or "none", checkpoint or "none", word .. "'s checkpoint")
    same(found.resume ~= nil, checkpoint ~= nil, word .. "'s command")
  end
  local at = { step = 12, total_steps = 20 }
  local running = { state = "running", reason = "it trains", step = 14 }
  expect(status(running, at), "killed", "the process was killed after step 14: kill -9")
  expect(status({ state = "running", reason = "x" }), "killed", "before the first step")
  expect(status(nil, at), "ended", "the log ends after step 12")
  same(run_status.of(dir, running, at, true).word, "running", "the run's own page")
  expect(status(nil, { step = 20, total_steps = 20, finished = true }), "finished",
    "after step 20 of 20")
  local lock = trainer.lock_folder(dir)
  expect(status(running, at), "running", "it trains")
  expect(status(nil, at), "running", "run.lock")
  lock:close()
  resumable(5)
  resumable(10)
  system.make_folder(dir .. "/checkpoint-15") -- of save_only_model: no run can resume from it
  local command = "moonring train c.yaml resume_from_checkpoint=out/checkpoint-3 seed=1"
  running.command = command
  expect(status(running, at), "killed", "kill -9", "checkpoint-10")
  same(status(running, at).resume,
    "moonring train c.yaml seed=1 resume_from_checkpoint=true", "command")
  expect(status({ state = "stopped", reason = "SIGTERM ended it", checkpoint = "checkpoint-5" }),
    "stopped", "SIGTERM ended it", "checkpoint-5")
  local own = "moonring train d.yaml resume_from_checkpoint=true"
  same(status({ state = "stopped", reason = "x", next = { own } }).resume, own, "its own command")
  expect(status { state = "failed", reason = "the loss is nan", resumable = false }, "failed",
    "the loss is nan")
  expect(status { state = "finished", reason = "all steps are made" }, "finished", "all steps")
  for _, wrong in ipairs { { state = "done" }, { {} }, { state = 7 } } do
    local ok, why = pcall(status, wrong)
    assert(not ok and tostring(why):find("status/run_state.json: state is ", 1, true), why)
  end
end

-- Tokens and seconds by step. elapsed_time has whole seconds; the fractions follow from the rate.
function sections.run_clock()
  local clock = require("moonring.report.run_clock").new()
  local function line(step, tokens, seconds, rate)
    clock:add { current_steps = step, tokens = tokens, tokens_per_second = rate,
      elapsed_time = ("0:%02d:%02d"):format(math.floor(seconds / 60), math.floor(seconds % 60)) }
  end
  line(1, 100, 1.25, 80) -- 100 tokens in 1.25 s
  line(2, 200, 1.75, 200)
  line(2, 200, 3.5, 0)   -- an evaluation of some 1.75 s
  line(3, 300, 4.5, 100)
  line(4, 400, 61.5, 100 / 57)
  same(clock.tokens.y, { 100, 200, 300, 400 }, "tokens")
  for i, wanted in ipairs { 1.25, 3, 4, 61 } do
    assert(clock.seconds.y[i] >= wanted and clock.seconds.y[i] < wanted + 1, clock.seconds.y[i])
  end
  same(clock.seconds.y[1], 1.25, "the fraction")
  same(clock:mean(), 400 / (1.25 + 0.5 + 1 + 57), "the mean of the steps")
  -- A resumed run counts from 0 again; elapsed_seconds is taken as it is.
  clock:add { current_steps = 5, tokens = 500, elapsed_time = "0:00:02" }
  assert(clock.seconds.y[5] >= 63 and clock.seconds.y[5] < 65, clock.seconds.y[5])
  local exact = require("moonring.report.run_clock").new()
  exact:add { current_steps = 1, elapsed_time = "1 day, 0:00:01", elapsed_seconds = 86401.75 }
  same(exact.seconds.y, { 86401.75 }, "elapsed_seconds")
  local days = require("moonring.report.run_clock").new()
  days:add { current_steps = 1, elapsed_time = "2 days, 1:00:01" }
  same(days.seconds.y, { 2 * 86400 + 3601 }, "days")
  assert(days:mean() == nil, "no rate")
end

-- Completions are grouped by prompt, the best reward first.
function sections.completion_groups()
  local groups_of = require("moonring.report.completion_groups").of
  local rows = {}
  for prompt = 1, 8 do
    for i = 1, 8 do
      rows[#rows + 1] = { prompt = "p" .. prompt, example = prompt, completion = i,
        reward = (i * 3) % 8 }
    end
  end
  rows[2].reward = system.null -- the reward function gave none
  local groups, count = groups_of(rows, false)
  same({ #groups, count }, { 6, 8 }, "groups")
  local first, ranks = {}, {}
  for i, row in ipairs(groups[2].rows) do first[i], ranks[i] = row.reward, row.rank end
  same({ groups[2].prompt, groups[2].count, groups[2].mean, first, ranks },
    { "p2", 8, 3.5, { 7, 6, 5, 4, 3, 0 }, { 1, 2, 3, 4, 5, 8 } }, "the second")
  same(groups[1].rows[6].reward, system.null, "without a reward: the last")
  same(groups[1].mean, (28 - 6) / 7, "the mean of those with one")
  same(select(2, groups_of({ { prompt = "a" }, { prompt = "b" } }, true)), 1, "a part of a file")
end

function sections.growing_file()
  local path = folder .. "/lines.jsonl"
  system.remove(path)
  local file, got, restarts = require("moonring.report.growing_file").open(path), {}, 0
  local function read()
    return file:read(function(value) got[#got + 1] = value end, function()
      got, restarts = {}, restarts + 1
    end)
  end
  same(read(), false, "a file that is not there")
  system.write(path, "[1]\n[2]\n[3")
  same({ read(), got }, { true, { { 1 }, { 2 } } }, "whole lines")
  same({ read(), got }, { false, { { 1 }, { 2 } } }, "nothing new")
  system.write(path, "[1]\n[2]\n[3]\n")
  same({ read(), got, restarts }, { true, { { 1 }, { 2 }, { 3 } }, 0 }, "one more")
  system.write(path, "[7]\n[2]\n[3]\n[4]\n") -- another run's, and longer
  same({ read(), got, restarts }, { true, { { 7 }, { 2 }, { 3 }, { 4 } }, 1 }, "begun again")
  system.write(path, "[7]\n")
  same({ read(), got, restarts }, { true, { { 7 } }, 2 }, "cut off")
  local long = ('["%s"]\n'):format(("a"):rep(3 * 2 ^ 20))
  system.write(path, "[7]\n" .. long)
  same({ read(), #got, #got[2][1], restarts }, { true, 2, 3 * 2 ^ 20, 2 }, "a line of 3 MiB")
  -- A line that is not JSON is reported at each update, with its number, until it is corrected.
  system.write(path, "[7]\n?\n")
  for _ = 1, 2 do
    local ok, why = pcall(read)
    assert(not ok and tostring(why):find("lines.jsonl:2:1: not valid JSON", 1, true), why)
  end
  system.write(path, "[7]\n[8]\n")
  same({ read(), got }, { true, { { 7 }, { 8 } } }, "mended")
end

function sections.rank_times()
  local times = require("moonring.report.rank_times").new()
  assert(times:data() == nil)
  times:add { step = 1, ranks = { { busy = 1, waiting = 2 }, { busy = 3, waiting = 0 } } }
  times:add { step = 2, ranks = { { busy = 4, waiting = 0 }, { busy = 3, waiting = 1 } } }
  times:add { step = 3, ranks = { { busy = 1, waiting = 2.5 }, { busy = 3.5, waiting = 0 } } }
  times:add "nothing"
  local told = times:data()
  same({ told.lines, told.busy, told.waiting, told.slowest, told.step },
    { 3, { 6, 9.5 }, { 4.5, 1 }, { 1, 2 }, 3 }, "sums")
end

-- During a run the page is only written if this takes at most a hundredth of the run's time; at the
-- end it is always written.
function sections.share()
  local run_page = require "moonring.report.run_page"
  system.write(folder .. "/trainer_log.jsonl", "")
  local mine = run_page.open({ report_html = true, output_dir = folder }, true)
  local path = folder .. "/report.html"
  local function written(at_end)
    system.remove(path)
    assert(mine:write(at_end) == nil)
    return system.exists(path)
  end
  assert(written(false), "the first")
  mine.spent, mine.last, mine.began = 1, 0.5, system.clock() - 149
  assert(not written(false), "1.5 s of 149 s")
  assert(written(true), "at the end")
  mine.spent, mine.last, mine.began = 1, 0.5, system.clock() - 151
  assert(written(false), "1.5 s of 151 s")
  assert(run_page.open({ report_html = false, output_dir = folder }, false) == nil)
end

sections[section]()
