-- Compares the loss scale of fp16 with torch.amp.GradScaler: loss_scale_test.lua SCALER.json. The
-- file has runs of steps with GradScaler's state after each step. A run that is resumed from a
-- state gives the same results.
local moonring = require "moonring"
local loss_scale = require "moonring.run.loss_scale"
local system = moonring.system

local runs = system.json_decode(system.read(arg[1]), arg[1])
assert(#runs >= 10, "a script of several runs")
local scale, overflows = loss_scale.new(), 0
assert(scale.scale == 65536)
for i, run in ipairs(runs) do
  for _ = 1, run.count do
    if run.overflows then
      overflows = overflows + 1
      assert(scale:shrink(), "run " .. i .. ": a lower scale may help")
    else
      scale:grow()
    end
  end
  local said = ("run %d: "):format(i)
  assert(scale.scale == run.scale, said .. scale.scale .. ", expected " .. run.scale)
  assert(scale.steps == run.tracker, said .. scale.steps .. " steps, expected " .. run.tracker)
  assert(scale.skipped == overflows, said .. scale.skipped .. " left out")
  local again = loss_scale.new()
  again:load_state(system.json_decode(system.json_encode(scale:state()), "state"))
  scale = again
end

-- The scale is halved 40 times from 2^16 to 2^-24, the minimum.
scale = loss_scale.new()
for i = 1, 40 do assert(scale:shrink(), "halving " .. i) end
assert(scale.scale == 2 ^ -24 and not scale:shrink())

-- The loss keeps its value; only its gradient is scaled.
local x = moonring.tensor({ 3 }, "fp64"):requires_grad_(true)
local scaled = loss_scale.new():of(x:square():sum())
scaled:backward()
assert(x:grad():item() == 6 * 65536)

for _, key in ipairs { "bf16", "pure_bf16", "fp64", "fp16" } do
  local c = moonring.config.load(nil, { key .. "=true" })
  assert((loss_scale.of(c) ~= nil) == (key == "fp16"), key)
end
