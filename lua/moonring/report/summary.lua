--- The lines at the end of a run: time, tokens, losses, memory, files, and what to do next. Their
-- numbers are those of totals.lua.
local machine = require "moonring.base.machine"
local phases = require "moonring.report.phases"
local system = require "moonring.native.system"
local totals = require "moonring.report.totals"
local utilisation = require "moonring.report.utilisation"

---@class moonring.summary
local summary = {}

local MOST_FILES = 12

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

-- A rate as text: "1,184", or "19.62" below 100.
local function rate_words(rate)
  return rate < 100 and ("%.2f"):format(rate) or machine.grouped(math.floor(rate + 0.5))
end

local TRAINED = "trained   %d steps in %s: %s tokens, %s tokens/s (mean, in steps only)"

local function trained(of)
  return TRAINED:format(of.step - of.first_step, machine.clock(of.step_seconds),
    machine.grouped(of.own_tokens), rate_words(of.tokens_per_second or 0))
end

-- Losses and the time that includes evaluations and saves.
local function results(of)
  local words = {}
  local function add(format, ...) words[#words + 1] = format:format(...) end
  if of.reward then add("reward %.6g (of the last line)", of.reward) end
  if of.train_loss then add("train_loss %.6g", of.train_loss) end
  local evaluation = of.evaluation or {}
  for _, name in ipairs { "eval_loss", "eval_accuracy", "eval_reward" } do
    if evaluation[name] then add("%s %.6g", name, evaluation[name]) end
  end
  if of.best then
    add("best %s %.6g at step %d", of.best.metric, of.best.value, of.best.step)
  end
  if of.train_runtime then
    add("train_runtime %.4g s (with evaluations and saves)", of.train_runtime)
  end
  return #words > 0 and "results   " .. table.concat(words, ", ") or nil
end

-- The line about memory. The peaks are those of the rank that uses the most.
local function memory(of, limit)
  local most = limit and limit > 0 and " of " .. machine.show(limit) or ""
  local host = machine.precise(of.peak_memory_bytes)
  if of.peak_device_bytes then
    return ("memory    %s%s of the GPU at the peak, %s of the host"):format(
      machine.precise(of.peak_device_bytes), most, host)
  end
  return ("memory    %s%s at the peak"):format(host, most)
end

local function say_next(log)
  local dir = log.config.output_dir
  log:say(("files     %s: %s"):format(dir, files(dir)))
  if log.page then log:say(("report    %s/report.html"):format(dir)) end
  for i, command in ipairs(log.next_commands) do
    log:say((i == 1 and "next      " or "          ") .. command)
  end
end

--- Logs the summary. Collective over all ranks.
---@param run moonring.Run after Journal:finish or Journal:stopped
---@param state "finished" | "stopped"
function summary.tell(run, state)
  local log = run.log
  if log.steps == log.first_step then return end
  local used = state == "finished" and utilisation.measure(run) or {}
  if not log.progress then return end
  local of = totals.of(log)
  log:say(trained(of))
  local losses = results(of)
  if losses then log:say(losses) end
  log:say(memory(of, log.memory_limit))
  if used.line then log:say(used.line) end
  if used.detail then log:detail(used.detail) end
  local times = phases.words(log.progress)
  if times ~= "" then log:say("besides   " .. times) end
  say_next(log)
  log.progress:event(system.json_encode { event = "end", state = state, step = of.step,
    seconds = of.step_seconds, tokens = of.own_tokens, tokens_per_second = of.tokens_per_second,
    train_loss = of.train_loss, train_runtime = of.train_runtime,
    peak_memory_bytes = of.peak_device_bytes or of.peak_memory_bytes, utilisation = used.share })
end

return summary
