--- An exponential moving average (EMA) of the weights, updated after each step. Evaluations and the
-- final model use the average; checkpoints store both the average and the trained weights.
-- moonring scripts/examples/ema.lua CONFIG.yaml|key=value... [decay=0.999]
local moonring = require "moonring"
local config = moonring.config.command(arg, {
  { "decay", "float", 0.999, "what the average keeps of itself at a step" } })
local run = moonring.run.open(config)

local learnt = {}
for _, parameter in ipairs(run.engine.parameters:list()) do
  if parameter:trainable() then learnt[#learnt + 1] = parameter end
end

-- A copy of the whole weight, gathered from its shards: the same on every rank.
local function copied(parameter)
  local weight = parameter:weight()
  return weight:to(weight:dtype() == "fp64" and "fp64" or "fp32"):clone()
end

local ema = { average = {} }
function ema:state() return { average = self.average } end
function ema:load_state(state) self.average = state.average end

function ema:take()
  for _, parameter in ipairs(learnt) do
    local name, now = parameter:name(), copied(parameter)
    if self.average[name] then
      self.average[name]:lerp_(now, 1 - config.decay)
    else
      self.average[name] = now:keep()
    end
  end
end

function ema:put()
  for _, parameter in ipairs(learnt) do parameter:copy_(self.average[parameter:name()]) end
end

local evaluate = run.evaluate
function run:evaluate()
  return moonring.scope(function()
    local own = {}
    for i, parameter in ipairs(learnt) do own[i] = copied(parameter) end
    if next(ema.average) then ema:put() end
    local numbers = evaluate(self)
    for i, parameter in ipairs(learnt) do parameter:copy_(own[i]) end
    return numbers
  end)
end

run:track("ema", ema)
for step in run:steps() do
  run:log(run:update(step))
  moonring.scope(moonring.no_grad, ema.take, ema)
  run:evaluate_if_due()
  run:save_if_due()
end
ema:put()
run:finish()
