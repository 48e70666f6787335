--- Optimizers of a script's own: a rule, as a table, that says how a weight changes by its
-- gradient. What it need not know of is trainer/rule_optimizer.h's: shards, dtypes, saving,
-- loading.
--
--   local sign_sgd = moonring.optimizer {
--     step = function(p, gradient, state, lr) p.weight:sub_(gradient:sign() * lr) end,
--   }
local options = require "moonring.base.options"
local tensor = require "moonring.native.tensor"
local trainer = require "moonring.native.trainer"

---@class moonring.own_optimizer
local own_optimizer = {}

--- A parameter, as a rule sees it.
---@class moonring.RuleParameter
---@field name string the published one
---@field shape integer[] of the whole weight, wherever it is
---@field ndim integer
---@field numel integer of the whole weight
---@field decays boolean whether weight_decay is for it: not of biases and norms
---@field whole boolean
--- what the step writes, in place or by putting another of its shape here: this rank's part,
--- [part], or the whole in its shape; in fp32 (fp64 of fp64 weights). While `state` and `step` run
---@field weight? moonring.Tensor
local RuleParameter = {}
RuleParameter.__index = RuleParameter

--- Zeros like `weight`, for a state.
---@param dtype? moonring.Dtype the weight's where absent
---@return moonring.Tensor
function RuleParameter:zeros(dtype)
  local zeros = self.weight:zeros_like()
  return dtype and zeros:to(dtype) or zeros
end

---@class moonring.OptimizerRule
--- writes `p.weight` by the gradient (summed over all ranks, clipped, of the weight's shape).
--- `state`: the parameter's, whose tensors it writes in place or replaces; k: the parameter's
--- steps, from 1
---@field step fun(p: moonring.RuleParameter, gradient: moonring.Tensor,
---   state: table<string, moonring.Tensor>, lr: number, k: integer)
--- what is kept for a parameter, before its first step; absent: nothing. By parts: tensors of the
--- weight's shape, or of shape []; of whole ones any
---@field state? fun(p: moonring.RuleParameter): table<string, moonring.Tensor>
--- which parameters are seen whole: each by one rank of those that share it. Absent: none
---@field whole? boolean | fun(p: moonring.RuleParameter): boolean
--- numbers of its state beside each weight, for `moonring plan`; 2 where absent
---@field moments? number
---@field name? string for messages and the model card

---@class moonring.OwnOptimizer: moonring.OptimizerRule
local OwnOptimizer = {}
OwnOptimizer.__index = OwnOptimizer

local RULE = { step = "function", state = "function?", whole = "any?", moments = "number?",
  name = "string?" }

--- An optimizer of a script's own. Errors: INVALID_ARGUMENT, with the nearest name.
---@param rule moonring.OptimizerRule
---@return moonring.OwnOptimizer
function own_optimizer.new(rule)
  if getmetatable(rule) == OwnOptimizer then return rule end
  options.check("optimizer", rule, RULE)
  local kind = type(rule.whole)
  if kind ~= "nil" and kind ~= "boolean" and kind ~= "function" then
    options.refuse("optimizer", "option 'whole': wanted a boolean or a function, got a ", kind)
  end
  local own = setmetatable({}, OwnOptimizer)
  for name, value in pairs(rule) do own[name] = value end
  return own
end

local function shape_of(t) return "[" .. table.concat(t:shape(), ", ") .. "]" end

-- A state that a rule made or left, moved out of the call's scope.
local function kept(p, state, made_by)
  local function refuse(...)
    local text = { "optimizer: ", made_by, " of ", p.name, ": ", ... }
    error("INVALID_ARGUMENT: " .. table.concat(text), 0)
  end
  if type(state) ~= "table" then
    refuse("wanted a table of tensors by name, got a ", type(state))
  end
  for name, value in pairs(state) do
    if type(name) ~= "string" then refuse("wanted tensors by name, got a key ", tostring(name)) end
    if getmetatable(value) ~= getmetatable(p.weight) then
      refuse("'", name, "': wanted a tensor, got a ", type(value))
    end
    value:keep()
  end
  return state
end

local function state_of(rule, p)
  if not rule.state then return {} end
  return kept(p, rule.state(p), "state")
end

local WEIGHT = "INVALID_ARGUMENT: optimizer: step of %s: p.weight: wanted a tensor of shape %s, "
  .. "got %s"

local function step_of(rule, p, state, gradient, lr, k)
  local weight = p.weight
  rule.step(p, gradient, state, lr, k)
  if p.weight ~= weight then
    local given = getmetatable(p.weight) == getmetatable(weight)
    if not given or shape_of(p.weight) ~= shape_of(weight) then
      error(WEIGHT:format(p.name, shape_of(weight), given and shape_of(p.weight)
        or "a " .. type(p.weight)), 0)
    end
    weight:copy_(p.weight)
    p.weight = weight
  end
  return kept(p, state, "after step the state")
end

local EVENTS = { state = state_of, step = step_of }

-- What lua/own_rule.h calls.
local function caller(rule, facts)
  local function named(p, event, ok, result)
    p.weight = nil
    if ok then return result end
    if type(result) == "string" and not result:find(p.name, 1, true) then
      result = ("%s (the optimizer's %s of %s)"):format(result, event, p.name)
    end
    error(result, 0)
  end
  return function(event, i, weight, ...)
    local p = facts[i]
    p.weight = weight
    return named(p, event, pcall(tensor.scope, EVENTS[event], rule, p, ...))
  end
end

---@class moonring.OverOptions
---@field zero? moonring.Zero what shards the parameters
--- what lora_B's and one-dimensional parameters' rate is multiplied by; 1 where absent
---@field loraplus_lr_ratio? number

--- The optimizer over some parameters: a handle like the built-in ones', to step, save and load.
--- Errors: INVALID_ARGUMENT for a state that lies on a disk.
---@param parameters moonring.Parameters states:parameters(), or a model's that nothing shards
---@param given? moonring.OverOptions
---@return moonring.Optimizer
function OwnOptimizer:over(parameters, given)
  given = options.check("optimizer:over", given, { zero = "any?", loraplus_lr_ratio = "number?" })
  local facts, whole = trainer.parameter_facts(parameters), {}
  for i, p in ipairs(facts) do
    p.ndim = #p.shape
    setmetatable(p, RuleParameter)
    local wanted = self.whole
    if type(wanted) == "function" then wanted = wanted(p) end
    p.whole, whole[i] = wanted and true or false, wanted and true or false
  end
  return trainer.own_optimizer(parameters, caller(self, facts), { zero = given.zero, whole = whole,
    loraplus_lr_ratio = given.loraplus_lr_ratio })
end

return own_optimizer
