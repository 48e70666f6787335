--- Functions that create tensors, named as in PyTorch. Sizes are separate arguments or one list,
-- followed by an optional table of options (dtype, device, requires_grad).
--
--   moonring.zeros(2, 3)   moonring.full({ 2, 3 }, 1.5)   moonring.randn(2, 3, { seed = 1 })
--
-- Random numbers come from a stateless counter-based generator. Each number depends only on the
-- seed, the name and the element's index, so it is the same on every rank and device. Calls without
-- a seed use the seeds 0, 1, 2, ... in turn, so ranks that make the same calls draw the same
-- numbers.
local native = require "moonring.native.tensor"
local options = require "moonring.base.options"
local ops = require("moonring.native.operators").ops

---@class moonring.creation
local creation = {}

---@class moonring.TensorOptions
---@field dtype? moonring.Dtype "fp32" where absent
---@field device? string "cpu" where absent
---@field requires_grad? boolean false where absent

--- Options of functions that draw random numbers.
---@class moonring.RandomOptions: moonring.TensorOptions
--- `seed`: if absent, a counter provides the next seed.
---@field seed? integer
---@field step? integer a second seed; 0 where absent
---@field name? string purpose: different names draw different numbers; "script" where absent
--- `rows`: int64 [N]. The shape of the result is then [N, width], and row n depends on rows[n]
--- instead of n. With rows = batch:cut(batch:sequence():identity()) a token draws the same numbers
--- for any sp, dp and packing.
---@field rows? moonring.Tensor

local RANDOM = { seed = "number?", step = "number?", name = "string?", rows = "any?",
  dtype = "string?", device = "string?", requires_grad = "boolean?" }

-- Splits arguments into sizes and a table of options.
local function read(...)
  local given, count = { ... }, select("#", ...)
  local how = {}
  local last = given[count]
  local is_options = type(last) == "table" and #last == 0 and (count > 1 or next(last) ~= nil)
  if is_options then
    how, given[count], count = last, nil, count - 1
  end
  if count == 1 and type(given[1]) == "table" then return given[1], how end
  return given, how
end

-- Raises a short error for an invalid device before an operator raises a long one.
local function check_device(how)
  if how.device then native.tensor({}, how.device) end
end

local function finish(made, how)
  if how.requires_grad then made:requires_grad_() end
  return made
end

local PLAIN = { dtype = "string?", device = "string?", requires_grad = "boolean?" }

local function filled(op, ...)
  local sizes, how = read(...)
  options.check("creation", how, PLAIN)
  check_device(how)
  return finish(op(sizes, { dtype = how.dtype, device = how.device }), how)
end

--- Zeros.
---@param ... integer | integer[] | moonring.TensorOptions sizes, then options
---@return moonring.Tensor
function creation.zeros(...) return filled(ops.zeros, ...) end

--- Ones.
---@param ... integer | integer[] | moonring.TensorOptions sizes, then options
---@return moonring.Tensor
function creation.ones(...) return filled(ops.ones, ...) end

--- A tensor filled with one value; fp32 by default.
---@param sizes integer[]
---@param value number
---@param how? moonring.TensorOptions
---@return moonring.Tensor
function creation.full(sizes, value, how)
  how = options.check("full", how, PLAIN)
  local dtype = how.dtype or "fp32"
  return finish(ops.full(sizes, value, { dtype = dtype, device = how.device }), how)
end

--- The numbers first, first + step, ... up to but excluding last, as torch.arange. If only one
--- number is given, it is last, and first is 0. Integers give int64.
---@param ... number | moonring.TensorOptions first, last, step
---@return moonring.Tensor
function creation.arange(...)
  local numbers, how = read(...)
  options.check("arange", how, PLAIN)
  local made
  local dtype = { dtype = how.dtype, device = how.device }
  if #numbers == 1 then
    made = ops.arange(numbers[1], dtype)
  elseif #numbers == 2 then
    made = ops.arange(numbers[1], numbers[2], dtype)
  else
    made = ops.arange(numbers[1], numbers[2], numbers[3], dtype)
  end
  return finish(made, how)
end

local drawn = 0

-- Uniform random numbers in fp64. Also returns the seed that was used.
local function uniform(sizes, how, name)
  options.check("creation", how, RANDOM)
  local seed = how.seed
  if not seed then
    seed, drawn = drawn, drawn + 1
  end
  local u = native.uniform(sizes, { seed = seed, step = how.step, rows = how.rows,
    name = (how.name or "script") .. name })
  return u:to "fp64", seed
end

local function placed(made, how)
  made = made:to(how.dtype or "fp32")
  if how.device then made = made:to(how.device) end
  return finish(made, how)
end

--- Uniform random numbers in [0, 1). They are multiples of 2^-24.
---@param ... integer | integer[] | moonring.RandomOptions
---@return moonring.Tensor
function creation.rand(...)
  local sizes, how = read(...)
  return placed(uniform(sizes, how, ""), how)
end

--- Normal numbers with mean 0 and variance 1: the Box-Muller transform of two uniform numbers, in
--- fp64.
---@param ... integer | integer[] | moonring.RandomOptions
---@return moonring.Tensor
function creation.randn(...)
  local sizes, how = read(...)
  return native.scope(function()
    local u, seed = uniform(sizes, how, "")
    local v = uniform(sizes, { seed = seed, step = how.step, rows = how.rows, name = how.name },
      ".angle")
    -- 1 - u is in (0, 1]
    return placed((-2 * (1 - u):log()):sqrt() * (2 * math.pi * v):cos(), how)
  end)
end

return creation
