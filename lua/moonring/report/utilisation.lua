--- Utilisation: the training's FLOP/s divided by the FLOP/s of large matrix products, which are
-- measured after the training. The best of six measurements counts, because other programs slow
-- them down. There is no result if the best two differ by more than 10 %, or if the training was
-- faster: then the machine was busy all the time.
local model_flops = require "moonring.plan.model_flops"
local trainer = require "moonring.native.trainer"

---@class moonring.utilisation
local utilisation = {}

-- Nothing is measured for trainings shorter than this many seconds.
local WORTH_MEASURING = 5

-- Number of measurements, their length in seconds, and the least ratio of the second best to the
-- best.
local TIMES, SECONDS, STEADY = 6, 0.03, 0.9

-- The rate of large matrix products on all ranks together, in the model's dtype, in operations per
-- second. It uses only memory that the run had allocated before. nil if a rank cannot measure.
-- Collective over all ranks.
local function measured_rate(run)
  local how = { dtype = run.model:matmul_dtype(), device = run.device, seconds = SECONDS,
    device_peak = run.log:device_peak() }
  run.mesh:barrier()
  local ok, rate = pcall(trainer.matmul_rate, how)
  local sum = 0
  for _, each in ipairs(run.mesh:gather_numbers(ok and rate or 0)) do
    if each == 0 then return nil end
    sum = sum + each
  end
  return sum
end

-- The best of several measurements, and the second best.
local function best_rates(run)
  local rates = {}
  for i = 1, TIMES do
    rates[i] = measured_rate(run)
    if not rates[i] then return nil end
  end
  table.sort(rates, function(a, b) return a > b end)
  return rates[1], rates[2]
end

-- A rate as text: "1.21 TFLOP/s".
local function rate_words(rate)
  return rate >= 1e12 and ("%.3g TFLOP/s"):format(rate / 1e12)
    or ("%.3g GFLOP/s"):format(rate / 1e9)
end

local LINE = "utilisation %.1f %% (causal %.1f %%) of %s, what large matrix products in %s reach "
  .. "here%s"
local UNSTEADY = "no utilisation: the machine was busy, large matrix products reached %s and %s"

--- Measures the utilisation of a training that has ended: a line for the terminal and the share, or
--- a detail why there is none; an empty table if it is not measured. Collective over all ranks.
---@param run moonring.Run
---@return { line?: string, share?: number, detail?: string }
function utilisation.measure(run)
  local log = run.log
  local seconds = run.mesh:max(log.step_seconds) -- the same on all ranks
  if seconds < WORTH_MEASURING then return {} end
  local ok, flops = pcall(model_flops.of, run.config, run.checkpoint)
  local best, second = best_rates(run)
  if not ok or not best then return {} end
  local whole, causal = model_flops.total(flops, log.own_tokens, log.squares)
  local most = best * seconds
  if second < STEADY * best or whole > most then
    return { detail = UNSTEADY:format(rate_words(best), rate_words(second)) }
  end
  local ranks = run.mesh:size() > 1 and (" on %d ranks"):format(run.mesh:size()) or ""
  return { share = whole / most, line = LINE:format(100 * whole / most, 100 * causal / most,
    rate_words(best), run.model:matmul_dtype(), ranks) }
end

return utilisation
