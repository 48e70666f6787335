--- Layers for custom modules. Weights are initialized as in PyTorch, but with a counter-based
-- random generator, so they are the same on every rank.
local module = require "moonring.nn.module"
local creation = require "moonring.base.creation"
local operators = require "moonring.native.operators"
local options = require "moonring.base.options"

local ops = operators.ops

---@class moonring.nn.layers
local layers = {}

--- Options of a layer's weights.
---@class moonring.LayerOptions
--- `seed` of the initialization; if absent, a counter provides the next seed.
---@field seed? integer
---@field dtype? moonring.Dtype default "fp32"
---@field device? string default "cpu"

---@class moonring.LinearOptions: moonring.LayerOptions
---@field bias? boolean default true

---@class moonring.NormOptions: moonring.LayerOptions
---@field eps? number default 1e-5

local PLAIN = { seed = "number?", dtype = "string?", device = "string?" }

local function with(more)
  local known = {}
  for name, kind in pairs(PLAIN) do known[name] = kind end
  for name, kind in pairs(more) do known[name] = kind end
  return known
end

local LINEAR, NORM = with { bias = "boolean?" }, with { eps = "number?", bias = "boolean?" }
local LORA = with { rank = "number?", alpha = "number?" }

-- A weight with uniform initial values in [-bound, bound). `name` selects the random numbers, as in
-- creation.rand.
local function uniform(name, sizes, bound, how)
  local values = creation.rand(sizes, { seed = how.seed, name = name, dtype = "fp64" })
  values = ((values * 2 - 1) * bound):to(how.dtype or "fp32")
  if how.device then values = values:to(how.device) end
  return module.parameter(values)
end

-- Refuses sizes that are not whole numbers of 1 or more.
local function check_sizes(name, ...)
  for i = 1, select("#", ...) do
    local size = select(i, ...)
    if type(size) ~= "number" or size < 1 or size ~= math.floor(size) then
      options.refuse(name, "argument ", i, ": expected a whole number of 1 or more, got ",
        tostring(size))
    end
  end
end

local function filled(size, value, how)
  return module.parameter(creation.full({ size }, value, { dtype = how.dtype,
    device = how.device }))
end

--- y = x W^T + b. W [outputs, inputs] and b are initialized uniformly within +-1 / sqrt(inputs).
---@param inputs integer
---@param outputs integer
---@param how? moonring.LinearOptions
---@return moonring.Module
function layers.linear(inputs, outputs, how)
  how = options.check("nn.linear", how, LINEAR)
  check_sizes("nn.linear", inputs, outputs)
  local bound = 1 / math.sqrt(inputs)
  local made = { _kind = ("Linear %d -> %d"):format(inputs, outputs),
    weight = uniform("weight", { outputs, inputs }, bound, how),
    forward = function(self, x)
      return ops.linear(x, self.weight:use(), self.bias and self.bias:use() or nil)
    end }
  if how.bias ~= false then made.bias = uniform("bias", { outputs }, bound, how) end
  return module.new(made)
end

--- A module that looks up rows in a table [count, width], which is initialized from a normal
--- distribution with variance 1.
---@param count integer
---@param width integer
---@param how? moonring.LayerOptions
---@return moonring.Module
function layers.embedding(count, width, how)
  how = options.check("nn.embedding", how, PLAIN)
  check_sizes("nn.embedding", count, width)
  local weight = creation.randn({ count, width }, { seed = how.seed, name = "embedding",
    dtype = how.dtype, device = how.device })
  return module.new { _kind = ("Embedding %d x %d"):format(count, width),
    weight = module.parameter(weight),
    forward = function(self, ids) return ops.embedding(self.weight:use(), ids) end }
end

--- (x - mean) / sqrt(variance + eps) over the last dim, then a scale and a shift.
---@param width integer
---@param how? moonring.NormOptions
---@return moonring.Module
function layers.layer_norm(width, how)
  how = options.check("nn.layer_norm", how, NORM)
  check_sizes("nn.layer_norm", width)
  local eps = how.eps or 1e-5
  local made = { _kind = ("LayerNorm %d"):format(width), weight = filled(width, 1, how),
    forward = function(self, x)
      return ops.layer_norm(x, { width }, self.weight:use(), self.bias and self.bias:use() or nil,
        eps)
    end }
  if how.bias ~= false then made.bias = filled(width, 0, how) end
  return module.new(made)
end

--- x / sqrt(mean of x^2 + eps) over the last dim, then a scale (Zhang and Sennrich,
--- arXiv:1910.07467).
---@param width integer
---@param how? moonring.NormOptions
---@return moonring.Module
function layers.rms_norm(width, how)
  how = options.check("nn.rms_norm", how, NORM)
  check_sizes("nn.rms_norm", width)
  local eps = how.eps or 1e-5
  return module.new { _kind = ("RMSNorm %d"):format(width), weight = filled(width, 1, how),
    forward = function(self, x) return ops.rms_norm(x, { width }, self.weight:use(), eps) end }
end

--- down(silu(gate(x)) * up(x)), without biases, as in Llama (Shazeer, arXiv:2002.05202).
---@param width integer
---@param inner integer
---@param how? moonring.LayerOptions
---@return moonring.Module
function layers.mlp(width, inner, how)
  how = options.check("nn.mlp", how, PLAIN)
  check_sizes("nn.mlp", width, inner)
  local function map(inputs, outputs, place)
    return layers.linear(inputs, outputs, { bias = false, dtype = how.dtype, device = how.device,
      seed = how.seed and 3 * how.seed + place })
  end
  return module.new { _kind = ("MLP %d, inner %d"):format(width, inner),
    gate = map(width, inner, 0), up = map(width, inner, 1), down = map(inner, width, 2),
    forward = function(self, x) return self.down(self.gate(x):silu() * self.up(x)) end }
end

---@class moonring.LoraOptions: moonring.LayerOptions
---@field rank? integer default 8
---@field alpha? number default 2 x rank

--- base(x) + B A x * alpha / rank (Hu et al., arXiv:2106.09685), with B initialized to zero. The
--- base module's weights are frozen.
---@param base moonring.Module takes rows of `inputs` features
---@param inputs integer
---@param outputs integer
---@param how? moonring.LoraOptions
---@return moonring.Module
function layers.lora(base, inputs, outputs, how)
  how = options.check("nn.lora", how, LORA)
  check_sizes("nn.lora", inputs, outputs)
  local rank = how.rank or 8
  local scale = (how.alpha or 2 * rank) / rank
  if type(base) ~= "table" or type(base.parameters) ~= "function" then
    options.refuse("nn.lora", "expected a module, got a ", type(base))
  end
  for _, parameter in ipairs(base:parameters():list()) do parameter:set_trainable(false) end
  local zeros = creation.zeros({ outputs, rank }, { dtype = how.dtype, device = how.device })
  return module.new { _kind = ("LoRA rank %d, scale %g"):format(rank, scale), base = base,
    lora_a = uniform("lora_a", { rank, inputs }, 1 / math.sqrt(inputs), how),
    lora_b = module.parameter(zeros),
    forward = function(self, x)
      local low = ops.linear(x, self.lora_a:use())
      return self.base(x) + ops.linear(low, self.lora_b:use()) * scale
    end }
end

--- Applies modules in order; plain functions are allowed: `nn.sequential { nn.linear(8, 8),
--- ops.relu }`.
---@param list (moonring.Module | fun(x: moonring.Tensor): moonring.Tensor)[]
---@return moonring.Module
function layers.sequential(list)
  if type(list) ~= "table" then
    options.refuse("nn.sequential", "expected a list of modules, got a ", type(list))
  end
  local made = { _kind = "Sequential",
    forward = function(self, ...)
      local x = self[1](...)
      for i = 2, #self do x = self[i](x) end
      return x
    end }
  for i, each in ipairs(list) do made[i] = each end
  if #list == 0 then options.refuse("nn.sequential", "expected at least one module") end
  return module.new(made)
end

return layers
