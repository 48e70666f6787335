--- The losses of several runs in one picture, and below it how far each is from the first one's.
--   moonring docs/loss_curves.lua OUT.svg TITLE NAME=trainer_log.jsonl NAME=...
local moonring = require "moonring"
local out, title = arg[1], arg[2]
local WIDTH, LEFT, RIGHT = 760, 70, 16
local STYLES = { { "#9ecae1", 9, "" }, { "#d95f0e", 3, "" }, { "#222222", 1.5, "2 6" } }
local svg = {}
local function draw(form, ...) svg[#svg + 1] = form:format(...) end
local function text(x, y, words, anchor)
  draw('<text x="%g" y="%g" text-anchor="%s">%s</text>', x, y, anchor or "start", words)
end

local runs, steps, high = {}, 0, 0
for i = 3, #arg do
  local name, path = arg[i]:match "^(.-)=(.+)$"
  local losses = {}
  for line in moonring.system.read(path):gmatch "[^\n]+" do
    local record = moonring.system.json_decode(line)
    losses[#losses + 1] = record.loss -- other lines are of evaluations
  end
  steps, high = math.max(steps, #losses), math.max(high, unpack(losses))
  runs[#runs + 1] = { name = name, losses = losses, style = STYLES[#runs + 1] }
end

local function x(step) return LEFT + (WIDTH - LEFT - RIGHT) * (step - 1) / (steps - 1) end
local function curve(run, values, y)
  local points = {}
  for k, value in ipairs(values) do points[k] = ("%.1f,%.1f"):format(x(k), y(value)) end
  draw('<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" stroke-dasharray="%s"/>',
    table.concat(points, " "), run.style[1], run.style[2], run.style[3])
end
local function marks(y, list) -- of { value, what is written there }
  for _, mark in ipairs(list) do
    draw('<path d="M%g %gH%g" stroke="#ddd"/>', LEFT, y(mark[1]), WIDTH - RIGHT)
    text(LEFT - 8, y(mark[1]) + 4, mark[2], "end")
  end
end

local function above(loss) return 290 - 240 * loss / high end
local function below(apart) return 440 - 14 * math.max(0, math.log10(apart) + 9) end
local whole, powers, stride = {}, {}, math.max(1, math.ceil(high / 6))
for loss = 0, math.floor(high), stride do whole[#whole + 1] = { loss, loss } end
for power = -9, -3, 3 do powers[#powers + 1] = { 10 ^ power, ("1e%d"):format(power) } end
text(WIDTH / 2, 26, title, "middle")
marks(above, whole)
marks(below, powers)
text(LEFT, 335, ("|loss - loss of %s| / loss of %s"):format(runs[1].name, runs[1].name))
text((LEFT + WIDTH) / 2, 465, "step, 1 to " .. steps, "middle")
for i, run in ipairs(runs) do
  curve(run, run.losses, above)
  local apart = {}
  for k, loss in ipairs(run.losses) do apart[k] = math.abs(loss / runs[1].losses[k] - 1) end
  if i > 1 then curve(run, apart, below) end
  draw('<path d="M%g %gh40" stroke="%s" stroke-width="%g" stroke-dasharray="%s"/>', WIDTH - 130,
    40 + 20 * i, run.style[1], run.style[2], run.style[3])
  text(WIDTH - 80, 44 + 20 * i, run.name)
end
moonring.system.write(out, ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="475" '
  .. 'font-family="sans-serif" font-size="13"><rect width="100%%" height="100%%" fill="white"/>\n'
  .. '%s\n</svg>\n'):format(WIDTH, table.concat(svg, "\n")))
