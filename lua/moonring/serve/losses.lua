--- The losses of forward_backward. Each is a sum over positions and datums of a term that depends
-- on the log-prob `lp` of a target and on numbers that came with it. Nothing is divided by counts
-- of tokens or datums. Terms are computed in fp64.
--
--   cross_entropy        -w lp
--   importance_sampling  -r A                                       r = exp(lp - q)
--   ppo                  -min(r A, clip(r, low, high) A)            Schulman et al. 2017
--   cispo                -stop_gradient(clip(r, low, high)) lp A    MiniMax 2025, arXiv 2506.13585
--   dro                  -(lp A - beta/2 (lp - q)^2)                Richemond et al. 2024
--
-- w: weight of a target; q: its log-prob under the policy that sampled it; A: its advantage. w and
-- A may have any sign.
local errors = require "moonring.base.errors"
local system = require "moonring.native.system"

---@class moonring.serve.losses
local losses = {}

--- A number of loss_fn_config: its default, and the range of its values.
---@class moonring.serve.LossNumber
---@field default number
---@field least number
---@field most? number absent: none

---@alias moonring.serve.LossTerms
---| fun(lp: moonring.Tensor, of: table<string, moonring.Tensor>, c: table): moonring.Tensor

--- A row of the table of losses.
---@class moonring.serve.Loss
---@field name string
--- `inputs`: those beside target_tokens, by name: "required", or the value if it is absent.
---@field inputs table<string, "required" | number>
---@field config table<string, moonring.serve.LossNumber>
---@field ratio boolean whether the loss compares lp with q
--- `terms` receives the log-probs and inputs, of one shape and in fp64, and the numbers of
--- loss_fn_config, and returns the terms.
---@field terms moonring.serve.LossTerms

local POLICY = { logprobs = "required", advantages = "required" }

-- exp(lp - q), and the same clipped to [low, high].
local function ratios(lp, of, c)
  local r = (lp - of.logprobs):exp()
  return r, c and r:clamp(c.clip_low_threshold, c.clip_high_threshold)
end

local function clip(low, high)
  return { clip_low_threshold = { default = low, least = 0 },
    clip_high_threshold = { default = high, least = 0 } }
end

---@type moonring.serve.Loss[]
local ROWS = {
  { name = "cross_entropy", inputs = { weights = 1 }, config = {}, ratio = false,
    terms = function(lp, of) return -(of.weights * lp) end },
  { name = "importance_sampling", inputs = POLICY, config = {}, ratio = true,
    terms = function(lp, of) return -(ratios(lp, of) * of.advantages) end },
  { name = "ppo", inputs = POLICY, config = clip(0.8, 1.2), ratio = true,
    terms = function(lp, of, c)
      local r, clipped = ratios(lp, of, c)
      return -(r * of.advantages):minimum(clipped * of.advantages)
    end },
  { name = "cispo", inputs = POLICY, config = clip(0, 4), ratio = true,
    terms = function(lp, of, c)
      local _, clipped = ratios(lp, of, c)
      return -(clipped:detach() * lp * of.advantages)
    end },
  { name = "dro", inputs = POLICY, config = { beta = { default = 0.05, least = 0 } }, ratio = true,
    terms = function(lp, of, c)
      return -(lp * of.advantages - (lp - of.logprobs) ^ 2 * (c.beta / 2))
    end },
}

-- Losses of the API that are not offered, and why.
local REFUSED = {
  stable_reinforce = "its formula is not published; importance_sampling computes "
    .. "-exp(logprob - sampled logprob) x advantage (in recipes: loss_fn=importance_sampling)",
  gspo = "the exact form of its ratio of a sequence is not published; ppo and cispo clip the ratio "
    .. "of each token",
  custom = "a traced loss is not computed here; forward_backward_custom of the client computes any "
    .. "loss of log-probs without it",
}

local function sorted(names)
  local list = {}
  for name in pairs(names) do list[#list + 1] = name end
  table.sort(list)
  return list
end

--- The names of all losses.
---@return string[]
function losses.names()
  local names = {}
  for i, row in ipairs(ROWS) do names[i] = row.name end
  return names
end

--- The loss of a name. Errors: INVALID_ARGUMENT, with the nearest name; UNIMPLEMENTED for one of
--- the API's that is not offered, with the reason.
---@param name string
---@return moonring.serve.Loss
function losses.of(name)
  for _, row in ipairs(ROWS) do
    if row.name == name then return row end
  end
  local known = table.concat(losses.names(), ", ")
  if REFUSED[name] then
    errors.raise("UNIMPLEMENTED", "loss_fn: ", name, " is not offered: ", REFUSED[name],
      "; losses: ", known)
  end
  errors.fail("loss_fn: no loss '", tostring(name), "'",
    system.did_you_mean(tostring(name), losses.names()), "; losses: ", known)
end

local function check_number(loss, name, value, wanted)
  local where = "loss_fn_config: " .. name
  if type(value) ~= "number" then
    errors.fail(where, ": expected a number, got ", type(value) == "string" and "'" .. value .. "'"
      or "a " .. type(value), " (", loss.name, ")")
  end
  if not (value >= wanted.least and value < math.huge) then
    errors.fail(where, ": expected at least ", wanted.least, " and finite, got ", value, " (",
      loss.name, ")")
  end
end

--- The numbers of loss_fn_config, with defaults. Errors: INVALID_ARGUMENT for an unknown name, with
--- the nearest one, and for a value that is not a number or out of range.
---@param loss moonring.serve.Loss
---@param given? table<string, any>
---@return table<string, number>
function losses.config(loss, given)
  local numbers = {}
  for name, wanted in pairs(loss.config) do numbers[name] = wanted.default end
  for _, name in ipairs(sorted(given or {})) do
    local wanted, names = loss.config[name], sorted(loss.config)
    if not wanted then
      errors.fail("loss_fn_config: ", loss.name, " has no '", name, "'",
        system.did_you_mean(name, names), "; it has ", #names > 0 and table.concat(names, ", ")
        or "none")
    end
    check_number(loss, name, given[name], wanted)
    numbers[name] = given[name]
  end
  local low, high = numbers.clip_low_threshold, numbers.clip_high_threshold
  if low and low > high then
    errors.fail("loss_fn_config: clip_low_threshold ", low, " is above clip_high_threshold ", high,
      " (", loss.name, ")")
  end
  return numbers
end

--- Metrics of a call, from all of its log-probs: sums, and the least, largest and mean exp(lp - q)
--- over the positions whose advantage is not 0. The part of a name after its colon is the reduction
--- by which clients combine the parts of a call that they have split.
---@param loss moonring.serve.Loss
---@param lp moonring.Tensor fp64
---@param of table<string, moonring.Tensor> of the same shape
---@param c table<string, number>
---@param scored moonring.Tensor bool, whether a position has a target
---@return table<string, number>
function losses.metrics(loss, lp, of, c, scored)
  local sum = loss.terms(lp, of, c):masked_fill(scored:logical_not(), 0):sum():item()
  local metrics = { ["loss:sum"] = sum, ["targets:sum"] = scored:sum():item() }
  if not loss.ratio then
    metrics["weights:sum"] = of.weights:masked_fill(scored:logical_not(), 0):sum():item()
    return metrics
  end
  local counted = of.advantages:ne(0):logical_and(scored)
  metrics["advantage_targets:sum"] = counted:sum():item()
  if metrics["advantage_targets:sum"] == 0 then return metrics end
  local r = ratios(lp, of)[counted]
  metrics["ratio:min"], metrics["ratio:max"] = r:min():item(), r:max():item()
  metrics["ratio:mean"] = r:mean():item()
  if c.clip_low_threshold then
    metrics["clipped_targets:sum"] = r:lt(c.clip_low_threshold):logical_or(
      r:gt(c.clip_high_threshold)):sum():item()
  end
  return metrics
end

return losses
