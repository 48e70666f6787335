--- The summary at the end of a run: time, tokens, memory, utilisation, files.
local model_flops = require "moonring.plan.model_flops"
local phases = require "moonring.report.phases"
local machine = require "moonring.base.machine"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.summary
local summary = {}

-- Utilisation is not measured for trainings shorter than this many seconds.
local WORTH_MEASURING = 2

local MOST_FILES = 12

-- Measures the rate of large matrix products on all ranks together, in the model's dtype:
-- operations per second. It uses only memory that the run had allocated before. nil if a rank
-- cannot measure. Collective over all ranks.
local function measured_rate(run)
  local how = { dtype = run.model:matmul_dtype(), device = run.device, seconds = 0.03,
    device_peak = run.log:device_peak() }
  run.mesh:barrier()
  local ok, rate = pcall(trainer.matmul_rate, how)
  local all = run.mesh:gather_numbers(ok and rate or 0)
  local sum = 0
  for _, each in ipairs(all) do
    if each == 0 then return nil end
    sum = sum + each
  end
  return sum
end

-- A rate as text: "1.21 TFLOP/s".
local function rate_words(rate)
  return rate >= 1e12 and ("%.3g TFLOP/s"):format(rate / 1e12)
    or ("%.3g GFLOP/s"):format(rate / 1e9)
end

local UTILISATION = "utilisation %.1f %% (causal %.1f %%) of %s, what large matrix products in %s "
  .. "reach here%s"

-- The training's rate as a fraction of the measured rate. Collective over all ranks.
local function utilisation(run)
  local log = run.log
  local seconds = run.mesh:max(log.step_seconds) -- the same on all ranks
  if seconds < WORTH_MEASURING then return nil end
  local ok, flops = pcall(model_flops.of, run.config, run.checkpoint)
  local rate = measured_rate(run)
  if not ok or not rate then return nil end
  local whole, causal = model_flops.total(flops, log.own_tokens, log.squares)
  local most = rate * seconds
  local ranks = run.mesh:size() > 1 and (" on %d ranks"):format(run.mesh:size()) or ""
  return UTILISATION:format(100 * whole / most, 100 * causal / most, rate_words(rate),
    run.model:matmul_dtype(), ranks), whole / most
end

-- The files in output_dir. run.lock is omitted, because it is removed at the end.
local function files(folder)
  local names, shown = {}, {}
  for _, name in ipairs(system.list(folder)) do
    if name ~= "run.lock" then names[#names + 1] = name end
  end
  for i = 1, math.min(#names, MOST_FILES) do
    shown[i] = names[i] .. (system.is_folder(folder .. "/" .. names[i]) and "/" or "")
  end
  if #names > MOST_FILES then
    shown[#shown + 1] = ("and %d more"):format(#names - MOST_FILES)
  end
  return table.concat(shown, " ")
end

local TRAINED = "trained   %d steps in %s: %s tokens, %s tokens/s"

-- The line about memory, such as "peak memory 2.1 GiB of 11.7 GiB". The peak is the maximum over
-- the ranks. Collective over all ranks.
local function memory(run)
  local mesh, log = run.mesh, run.log
  local host, device = mesh:max(trainer.peak_memory()), mesh:max(log:device_peak())
  local limit = log.memory_limit and log.memory_limit > 0
    and " of " .. machine.show(log.memory_limit) or ""
  if device > 0 then
    return ("memory    %s%s of the GPU at the most, %s of the host"):format(machine.show(device),
      limit, machine.show(host)), device
  end
  return ("memory    %s%s at the most"):format(machine.show(host), limit), host
end

--- Logs the summary. Collective over all ranks.
---@param run moonring.Run
function summary.tell(run)
  local log = run.log
  local steps = log.steps - log.first_step
  if steps == 0 then return end
  local held, peak = memory(run)
  local used, share = utilisation(run)
  if not log.progress then return end
  local seconds = log.step_seconds
  log:say(TRAINED:format(steps, machine.clock(seconds), machine.grouped(log.own_tokens),
    machine.grouped(math.floor(log.own_tokens / math.max(seconds, 1e-9) + 0.5))))
  log:say(held)
  if used then log:say(used) end
  local times = phases.words(log.progress)
  if times ~= "" then log:say("besides   " .. times) end
  log:say(("files     %s: %s"):format(run.config.output_dir, files(run.config.output_dir)))
  log.progress:event(system.json_encode { event = "end", step = log.steps, seconds = seconds,
    tokens = log.own_tokens, peak_memory_bytes = peak, utilisation = share })
end

return summary
