--- The numbers of a run as a whole, each computed in one place. The terminal's last lines,
-- run_state.json and with it the report take them from here. Fields of trainer_log.jsonl and of the
-- result files with the same name have the same value.
local trainer = require "moonring.native.trainer"

---@class moonring.totals
local totals = {}

---@class moonring.Totals
---@field first_step integer steps made before this process started
---@field step integer
---@field total_steps integer
---@field epoch number
---@field tokens integer of the whole run
---@field own_tokens integer since this process started
---@field step_seconds number in steps since this process started, without evaluations and saves
---@field tokens_per_second? number the mean: own_tokens per second in steps
---@field peak_memory_bytes integer of the host, on the rank that uses the most
---@field peak_device_bytes? integer reserved by the GPU's allocator, on the rank that uses the most
---@field train_loss? number mean over all steps; present once the training has ended
---@field train_runtime? number seconds from before the first step to the end of the training,
---   evaluations and saves included; present once the training has ended
---@field reward? number the mean reward in the last log line that has one
---@field evaluation? table the last evaluation: step, and its metrics by their "eval_" names
---@field best? table the best evaluation: step, metric, value, folder

--- Measures the peaks of memory so far, which later calls of `of` return. Collective over all
--- ranks.
---@param journal moonring.Journal
---@return integer peak of the host's memory, on the rank that uses the most
function totals.measure(journal)
  local mesh = journal.mesh
  journal.peak_memory = math.max(journal.peak_memory or 0, mesh:max(trainer.peak_memory()))
  journal.peak_device = math.max(journal.peak_device or 0, mesh:max(journal:device_peak()))
  return journal.peak_memory
end

--- The numbers so far.
---@param journal moonring.Journal
---@return moonring.Totals
function totals.of(journal)
  local seconds, results = journal.step_seconds, journal.train_results or {}
  local device = journal.peak_device or 0
  return {
    first_step = journal.first_step, step = journal.steps,
    total_steps = journal.counts.total_steps, epoch = journal.epoch or 0, tokens = journal.tokens,
    own_tokens = journal.own_tokens, step_seconds = seconds,
    tokens_per_second = seconds > 0 and journal.own_tokens / seconds or nil,
    peak_memory_bytes = journal.peak_memory or 0, peak_device_bytes = device > 0 and device or nil,
    reward = journal.last_reward, train_loss = results.train_loss,
    train_runtime = results.train_runtime,
    evaluation = journal.last_evaluation and totals.evaluation(journal), best = journal.best_so_far,
  }
end

--- The last evaluation, with its step.
---@param journal moonring.Journal
---@return table<string, number>
function totals.evaluation(journal)
  local named = { step = journal.evaluated == "end" and journal.steps or journal.evaluated }
  for name, value in pairs(journal.last_evaluation) do named[name] = value end
  return named
end

return totals
