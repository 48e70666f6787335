--- The run of a check. It is opened by the configuration or the script that is checked, with the
-- keys of the check's plan. Its loop makes the same step several times, with weights that the check
-- sets; the optimizer never changes them.
local creation = require "moonring.base.creation"
local errors = require "moonring.base.errors"
local held = require "moonring.commands.check.held"
local metrics = require "moonring.base.metrics"
local of_table = require "moonring.config.of_table"
local run_module = require "moonring.run"
local source = require "moonring.data.source"
local steps = require "moonring.run.step"
local system = require "moonring.native.system"
local tensor = require "moonring.native.tensor"

---@class moonring.measured_run
local measured_run = {}

--- What one pass of the run's loop gave.
---@class moonring.Measurement
---@field loss number
---@field metrics table<string, number> the means that a log would show
---@field counts number[] the objective's count of the step on each rank
---@field gradients table<string, moonring.Tensor> by parameter
---@field state? string the objective's state after the step

-- How far the weights are moved before the check, as a part of their size: the reference model then
-- differs from the policy, and no weight of an adapter or a head is 0.
local MOVED, LEAST_SIZE = 0.2, 0.05

local function copied(parameter) return parameter:weight():to("fp64"):clone():keep() end

-- Random numbers of a parameter's shape and size. They depend on its name only, not on ranks.
local function random(parameter, seed)
  local weight = parameter:weight():to "fp64"
  local size = math.max(weight:square():mean():sqrt():item(), LEAST_SIZE)
  return (creation.randn(parameter:shape(), { seed = seed, name = parameter:name(),
    dtype = "fp64" }) * size):keep()
end

local Measured = {}
Measured.__index = Measured

-- Reads the gradients of the step, which are summed over all ranks.
local function gradients_of(self)
  local found = {}
  for _, parameter in ipairs(self.parameters) do
    local gradient = self.run.states:gradient(parameter:name())
    if gradient then found[parameter:name()] = gradient:to("fp64"):clone():keep() end
  end
  return found
end

-- Replaces methods of a run, so that its loop measures.
local function replace(self)
  local run, now = self.run, self
  function run.update(_, step)
    local made = steps.make(run.engine, step, 1)
    if made.outcome == "idle" then errors.fail("the step is skipped: ", made.why) end
    now.made.loss, now.made.gradients = made.loss, gradients_of(now)
    now.made.metrics = metrics.means(made.metrics)
    run.states:clear_gradients()
    return { loss = made.loss, grad_norm = 0, metrics = made.metrics, lr = 0, outcome = "updated" }
  end
  local optimizer = { step = function() now.made.gradients = gradients_of(now) end }
  run.optimizer, run.updates.optimizer = optimizer, optimizer
  run.log = setmetatable({}, { __index = run.log, __call = function(_, _, numbers)
    now.made.loss = now.made.loss or numbers.loss
  end })
  function run.evaluate_if_due() end
  function run.save_if_due() end
  function run.finish() end
  function run.steps() return self:passes() end
end

-- Moves all trainable weights by `t` times a direction from where the check began.
local function place(self, direction, t)
  tensor.scope(function()
    for i, parameter in ipairs(self.parameters) do
      local weight = self.weights[i]
      parameter:copy_(direction and weight + direction[i] * t or weight)
    end
  end)
end

local function prepare(self)
  self.parameters = {}
  for _, parameter in ipairs(self.run.engine.parameters:list()) do
    if parameter:trainable() then self.parameters[#self.parameters + 1] = parameter end
  end
  self.weights = {}
  for i, parameter in ipairs(self.parameters) do
    self.weights[i] = (copied(parameter) + random(parameter, 1) * MOVED):keep()
  end
  local objective = self.run.objective
  self.state = objective.state and objective.state()
end

--- Makes the step once. Called by the check's procedure, within the loop of the run.
---@param direction? moonring.Tensor[] by parameter
---@param t? number
---@return moonring.Measurement
function Measured:measure(direction, t)
  local objective = self.run.objective
  if self.state then objective.load_state(self.state) end
  place(self, direction, t)
  self.made = {}
  self.made.counts = self:counts()
  if self.state then objective.load_state(self.state) end
  if self.hold_mode then held.begin(self.hold_mode) end
  coroutine.yield(true)
  if not self.made.loss then
    errors.fail("the script's loop logs no loss: expected run:log { loss = .. }")
  elseif not self.made.gradients then
    errors.fail("the script's loop makes no gradient: expected run:update(step), or the call of ",
      "run.optimizer:step")
  end
  self.made.state = objective.state and objective.state()
  return self.made
end

--- Packs the step's examples into micro-batches.
---@param packing? "each" | "packed" absent: as they are
function Measured:pack(packing)
  if not packing then return end
  local groups = {}
  for i = 0, self.step:size() - 1 do
    local g = packing == "each" and i + 1 or 1
    groups[g] = groups[g] or {}
    table.insert(groups[g], i)
  end
  self.step:regroup(groups, self.run.mesh)
end

--- The objective's count of this step's micro-batches, for every rank.
---@return number[]
function Measured:counts()
  local engine = self.run.engine
  return engine.mesh:gather_numbers(engine:total(self.step:micro_batches(), engine.objective.count))
end

--- A random direction of all trainable parameters. It leaves the embedding of the pad token as it
--- is: as in Transformers, a lookup of that token has no gradient, whatever the loss.
---@param seed integer
---@return moonring.Tensor[]
function Measured:direction(seed)
  local pad = system.json_decode(self.run.checkpoint:config_json()).pad_token_id
  local list = {}
  for i, parameter in ipairs(self.parameters) do
    local direction, shape = random(parameter, seed), parameter:shape()
    local has_pad = type(pad) == "number" and parameter:name():find "embed" and shape[1] > pad
    if has_pad and #shape == 2 then direction[pad]:zero_() end
    list[i] = direction
  end
  return list
end

-- The iterator over the loop's passes: the procedure runs between them.
function Measured:passes()
  local run = self.run
  if not run.batches then errors.fail("do_train: expected a run that trains") end
  run.times:begin()
  prepare(self)
  self.step = run.first and run.first[1] or run.batches:next()
  local procedure = coroutine.wrap(function()
    self.procedure(self)
    self.is_done = true
  end)
  return function()
    if self.is_done or not procedure() then return nil end
    run.batch, run.step = self.step, 1
    return self.step, 1
  end
end

local function rows_source(rows)
  return function()
    local i = 0
    return source.new { name = "the check's documents", next = function()
      i = i + 1
      return rows[i]
    end }
  end
end

--- Replaces run.open in this process: the next run is that of the check.
---@param plan moonring.CheckPlan
---@param values table<string, any> keys and values of the layout
---@param procedure fun(measured: table) measures
function measured_run.install(plan, values, procedure)
  local open = run_module.open
  function run_module.open(given, own)
    if given.places == nil then of_table(given) end -- reports its errors
    local all, parts = {}, {}
    for name, value in pairs(plan.values) do all[name] = value end
    for name, value in pairs(values) do all[name] = value end
    for name, value in pairs(own or {}) do parts[name] = value end
    if plan.rows then parts.data = rows_source(plan.rows) end
    parts.order, parts.micro_batches, parts.optimizer, parts.schedule = nil, nil, nil, nil
    local self = setmetatable({ procedure = procedure, run = open(all, parts) }, Measured)
    replace(self)
    return self.run
  end
end

return measured_run
