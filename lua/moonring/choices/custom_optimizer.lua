--- Custom optimizers in Lua. A rule is a table of functions that update one weight from its
-- gradient. trainer/optimizer/rule_optimizer.h handles sharding, dtypes, saving and loading.
--
--   local sign_sgd = moonring.optimizer {
--     step = function(p, gradient, state, lr) p.weight:sub_(gradient:sign() * lr) end,
--   }
local errors = require "moonring.base.errors"
local options = require "moonring.base.options"
local tensor = require "moonring.native.tensor"
local trainer = require "moonring.native.trainer"

---@class moonring.custom_optimizer
local custom_optimizer = {}

--- A parameter, as passed to a rule.
---@class moonring.RuleParameter
---@field name string as in the published checkpoint
---@field shape integer[] of the whole weight, also where only a shard is local
---@field ndim integer
---@field numel integer of the whole weight
---@field decays boolean whether weight_decay applies: false for biases and norms
---@field whole boolean whether the rule receives the whole weight instead of a shard
--- `weight` is the tensor to update, in place or by assigning another tensor of the same shape. It
--- is this rank's shard, one-dimensional, or the whole weight in its own shape; its dtype is fp32
--- (fp64 for fp64 weights). It is set only while `state` and `step` run.
---@field weight? moonring.Tensor
local RuleParameter = {}
RuleParameter.__index = RuleParameter

--- Returns zeros in the shape of `weight`, to be used as a state tensor.
---@param dtype? moonring.Dtype the weight's dtype by default
---@return moonring.Tensor
function RuleParameter:zeros(dtype)
  local zeros = self.weight:zeros_like()
  return dtype and zeros:to(dtype) or zeros
end

--- The rule of a custom optimizer: a table of functions and settings.
---@class moonring.OptimizerRule
--- `step` updates `p.weight` from the gradient, which is summed over all ranks, clipped, and has
--- the weight's shape. `state` is the parameter's state; its tensors may be written in place or
--- replaced. k counts the parameter's steps from 1.
---@field step fun(p: moonring.RuleParameter, gradient: moonring.Tensor,
---   state: table<string, moonring.Tensor>, lr: number, k: integer)
--- `state` creates a parameter's state before its first step; absent: no state. For a sharded
--- parameter its tensors must have the shard's shape or shape []; for a whole one they may have any
--- shape.
---@field state? fun(p: moonring.RuleParameter): table<string, moonring.Tensor>
--- `whole` selects the parameters whose step needs the whole weight; one rank of each group
--- computes it. Default: none.
---@field whole? boolean | fun(p: moonring.RuleParameter): boolean
--- `moments`: the number of state elements per weight, which `moonring plan` uses; default 2.
---@field moments? number
---@field name? string for messages and the model card

---@class moonring.OwnOptimizer: moonring.OptimizerRule
local OwnOptimizer = {}
OwnOptimizer.__index = OwnOptimizer

local RULE = { step = "function", state = "function?", whole = "any?", moments = "number?",
  name = "string?" }

--- Creates a custom optimizer from a rule. Errors: INVALID_ARGUMENT, with the nearest option name.
---@param rule moonring.OptimizerRule
---@return moonring.OwnOptimizer
function custom_optimizer.new(rule)
  if getmetatable(rule) == OwnOptimizer then return rule end
  options.check("optimizer", rule, RULE)
  local kind = type(rule.whole)
  if kind ~= "nil" and kind ~= "boolean" and kind ~= "function" then
    options.refuse("optimizer", "option 'whole': expected a boolean or a function, got a ", kind)
  end
  local own = setmetatable({}, OwnOptimizer)
  for name, value in pairs(rule) do own[name] = value end
  return own
end

local function shape_of(t) return "[" .. table.concat(t:shape(), ", ") .. "]" end

-- Checks a state that a rule returned or modified, and keeps its tensors beyond the current scope.
local function kept(p, state, made_by)
  local function refuse(...)
    local text = { "optimizer: ", made_by, " of ", p.name, ": ", ... }
    errors.fail(table.concat(text))
  end
  if type(state) ~= "table" then
    refuse("expected a table of tensors by name, got a ", type(state))
  end
  for name, value in pairs(state) do
    if type(name) ~= "string" then
      refuse("expected tensors by name, got a key ", tostring(name))
    end
    if getmetatable(value) ~= getmetatable(p.weight) then
      refuse("'", name, "': expected a tensor, got a ", type(value))
    end
    value:keep()
  end
  return state
end

local function state_of(rule, p)
  if not rule.state then return {} end
  return kept(p, rule.state(p), "state")
end

local function step_of(rule, p, state, gradient, lr, k)
  local weight = p.weight
  rule.step(p, gradient, state, lr, k)
  if not rawequal(p.weight, weight) then
    local given = getmetatable(p.weight) == getmetatable(weight)
    if not given or shape_of(p.weight) ~= shape_of(weight) then
      errors.fail("optimizer: step of ", p.name, ": p.weight: expected a tensor of shape ",
        shape_of(weight), ", got ", given and shape_of(p.weight) or "a " .. type(p.weight))
    end
    weight:copy_(p.weight)
    p.weight = weight
  end
  return kept(p, state, "after step the state")
end

local EVENTS = { state = state_of, step = step_of }

-- Makes the callback for lua/bindings/custom_rule.h: it calls the rule for parameter i.
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

--- Options of OwnOptimizer:over.
---@class moonring.OverOptions
---@field zero? moonring.Zero the sharding of the parameters
--- `loraplus_lr_ratio`: factor on the learning rate of lora_B and of one-dimensional parameters;
--- default 1.
---@field loraplus_lr_ratio? number

--- Creates an optimizer that applies the rule to parameters. Like the built-in ones it has step,
--- save and load. Errors: INVALID_ARGUMENT if the configuration offloads its state to disk.
---@param parameters moonring.Parameters states:parameters(), or an unsharded model's parameters
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

return custom_optimizer
