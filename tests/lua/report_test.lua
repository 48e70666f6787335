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
