--- Finite differences along random directions of all trainable parameters: is a gradient that of
-- the loss? A direction d changes every weight by a random part of its parameter's size.
--
--   D(h) = (L(w + h d) - L(w - h d)) / 2h = g.d + O(h^2)      Richardson: (4 D(h/2) - D(h)) / 3
--
-- Errors are relative to the size that g.d has for random directions, sqrt(sum of (g_i s_i)^2),
-- where s_i is the size of weight i. The truncation of Richardson's value is O(h^4), the rounding
-- about 1e-16 L / h: with h = 3e-4 right gradients have errors of 1e-10. Where they differ, other h
-- tell how well the value is known: with a kink (relu, clamp, minimum) within h, or in fp32, the
-- values for two h differ, and nothing is accused. A loss with a kink at w itself has different
-- slopes on both sides: then no gradient is wrong.

---@class moonring.check_differences
local differences = {}

--- The result for one direction.
---@class moonring.Difference
---@field analytic number
---@field numeric number
---@field error number relative
---@field verdict "equal" | "differs" | "not smooth"

local DIRECTIONS = 3
local STEPS = { 3e-4, 5e-5, 3e-3, 1e-2 }
-- An error up to TOLERANCE is equal. A larger one is accused if two step sizes agree within EXACT,
-- as in fp64, or if it is much larger than ROUGH and they agree within that, as in fp32.
local TOLERANCE, EXACT, ROUGH = 1e-6, 1e-7, 1e-3

-- g.d, and its size for random directions.
local function analytic_of(measured, base, direction)
  local product, size = 0, 0
  for i, parameter in ipairs(measured.parameters) do
    local gradient = base.gradients[parameter:name()]
    if gradient then
      product = product + (gradient * direction[i]):sum():item()
      size = size + (gradient:square():sum() * direction[i]:square():mean()):item()
    end
  end
  return product, math.sqrt(size)
end

-- One step size: Richardson's value, and whether w has a kink.
local function try(loss_at, at_zero, h, size)
  local up, down, up2, down2 = loss_at(h), loss_at(-h), loss_at(h / 2), loss_at(-h / 2)
  local whole, half = (up - down) / (2 * h), (up2 - down2) / h
  local bend, bend2 = (up + down - 2 * at_zero) / h, (up2 + down2 - 2 * at_zero) / (h / 2)
  local kink = math.abs(bend2) > 0.7 * math.abs(bend) and math.abs(bend2) / size > 0.01
  return (4 * half - whole) / 3, kink
end

-- The size to which errors are relative. A gradient of 0 has none: then it is the loss's own.
local function scale(size, base)
  return size > 0 and size or math.max(math.abs(base.loss), 1e-12)
end

-- The two step sizes whose values agree best, and by how much they differ: what is unknown.
local function agreeing(tried)
  local best, unknown = nil, math.huge
  for i = 1, #tried do
    for j = i + 1, #tried do
      local apart = math.abs(tried[i].numeric - tried[j].numeric) / tried[i].size
      if apart < unknown then best, unknown = tried[i], apart end
    end
  end
  return best or tried[1], unknown
end

local function judge(tried)
  local best, unknown = agreeing(tried)
  local known = unknown < ROUGH and not best.kink
  local exactly = unknown < EXACT and best.error > 20 * unknown
  if known and (exactly or best.error > 20 * ROUGH) then
    best.verdict = "differs"
  elseif known and best.error < ROUGH then
    best.verdict = "equal" -- as well as it is known, with weights or losses in fp32
  else
    best.verdict = "not smooth"
  end
  return best, unknown
end

--- Compares along one direction.
---@param loss_at fun(t: number): number
---@param base moonring.Measurement
---@param analytic number
---@param size number
---@return moonring.Difference
function differences.one(loss_at, base, analytic, size)
  size = scale(size, base)
  local tried = {}
  for k, h in ipairs(STEPS) do
    local numeric, kink = try(loss_at, base.loss, h, size)
    tried[k] = { analytic = analytic, numeric = numeric, kink = kink, size = size,
      error = math.abs(numeric - analytic) / size }
    if tried[k].error <= TOLERANCE then
      tried[k].verdict = "equal"
      return tried[k]
    end
    local best, unknown = judge(tried)
    if best.verdict == "differs" and unknown < EXACT then return best end
  end
  return (judge(tried))
end

--- Compares along random directions.
---@param measured table the run of the check
---@param base moonring.Measurement
---@return moonring.Difference[]
function differences.all(measured, base)
  local found = {}
  for k = 1, DIRECTIONS do
    local direction = measured:direction(100 + k)
    local analytic, size = analytic_of(measured, base, direction)
    found[k] = differences.one(function(t) return measured:measure(direction, t).loss end, base,
      analytic, size)
  end
  return found
end

return differences
