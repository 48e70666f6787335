--- Makes the contents of log lines: averages over the steps since the last line, and evaluations.
local batching = require "moonring.choices.batching"
local machine = require "moonring.base.machine"
local metrics = require "moonring.base.metrics"
local model_card = require "moonring.report.model_card"
local model_flops = require "moonring.plan.model_flops"
local phases = require "moonring.report.phases"
local model = require "moonring.native.model"
local system = require "moonring.native.system"
local totals = require "moonring.report.totals"
local trainer = require "moonring.native.trainer"

---@class moonring.journal_lines
local lines = {}

---@class moonring.StepReport
---@field step integer steps made, from 1
---@field due boolean whether logging_strategy wants a log line after this step
---@field loss? number of the whole step; loss, grad_norm and metrics are absent for a skipped step
---@field skipped? integer steps skipped so far
---@field loss_scale? number with fp16: the scale of the next step
---@field lr number
---@field grad_norm number before clipping
---@field tokens integer in the step
---@field squares number sum of the squared lengths of the step's documents
---@field epoch number epochs done
---@field seconds? number duration
---@field metrics? table<string, number[]> of the whole step: name -> { sum, count }

-- The number of floating-point operations of a forward and a backward per token, as Transformers
-- counts them: 6 per parameter, without the embedding.
local function flops_per_token(checkpoint)
  local parameters = 0
  for _, part in ipairs(checkpoint:parts()) do
    if part.name ~= "embedding" then parameters = parameters + part.parameters end
  end
  return 6 * parameters
end

-- The token rates in train_results.json. The rate of Transformers is a total, that of LLaMA-Factory
-- is per rank.
local function token_rates(config, ranks)
  return { train_tokens_per_second = config.include_tokens_per_second and 1 or nil,
    effective_tokens_per_sec = config.include_effective_tokens_per_second and ranks or nil }
end

--- Opens the log in output_dir, on rank 0.
---@param config moonring.Configuration
---@param counts moonring.Counts
---@param checkpoint moonring.Checkpoint
---@param standing moonring.Journal where the run resumes
---@param ranks integer number of ranks of the run
---@return moonring.Log
function lines.open(config, counts, checkpoint, standing, ranks)
  local function interval(value)
    return batching.interval(value or config.logging_steps, counts.total_steps)
  end
  return trainer.log {
    dir = config.output_dir,
    total_steps = counts.total_steps,
    num_train_epochs = config.num_train_epochs,
    logging_steps = interval(config.logging_steps),
    eval_steps = interval(config.eval_steps),
    save_steps = interval(config.save_steps),
    train_batch_size = config.per_device_train_batch_size,
    flops_per_token = flops_per_token(checkpoint),
    tells_tokens = config.include_num_input_tokens_seen ~= "no",
    token_rates = token_rates(config, ranks),
    first_step = standing.steps,
    first_tokens = standing.tokens,
    first_epoch = standing.epoch,
    first_lines = standing.first_lines,
  }
end

-- The peak bytes of the GPUs' allocators since the last log line: `allocated` by tensors, and
-- `reserved` in total. Each is the maximum over the ranks. Empty on a CPU.
local function device_peaks(journal)
  local mine, mesh = journal:take_device_peaks(), journal.mesh
  if not mine then return {} end
  return { allocated = mesh:max(mine.allocated), reserved = mesh:max(mine.reserved) }
end

-- Averages over the steps since the last log line, and starts new averages. Returns the loss (nil
-- if every step was skipped), the metrics including memory peaks, and the peak memory of the
-- process. Each peak is the maximum over the ranks.
local function since_last(journal)
  local mesh = journal.mesh
  local peak, held = totals.measure(journal), mesh:max(trainer.held_memory())
  local anonymous = journal.memory and journal.memory:take_peak()
  local device = device_peaks(journal)
  local loss
  for _, each in ipairs(journal.since) do loss = (loss or 0) + each / #journal.since end
  local means = metrics.means(journal.metrics)
  -- trainer_log.jsonl uses LLaMA-Factory's name for this metric.
  means.accuracy = means.accuracy or means["rewards/accuracies"]
  means.allocator_held_bytes, means.peak_anonymous_bytes = held, anonymous
  for name, bytes in pairs(journal.memory and journal.memory:take_parts() or {}) do
    means[name] = bytes
  end
  means.peak_device_allocated_bytes = device.allocated
  means.peak_device_reserved_bytes = device.reserved
  means.skipped_steps = journal.skipped > 0 and journal.skipped or nil
  means.loss_scale = journal.loss_scale
  local took = journal.step_times and journal.step_times:take(journal.steps) or {}
  for name, seconds in pairs(took) do means[name] = seconds end
  journal.since, journal.metrics = {}, {}
  return loss, means, peak
end

--- Prepares the computation of MFU: the time that a run's steps would take at the devices' peak
--- rate. nil if the peak rate is unknown; for a GPU this is logged.
---@param journal moonring.Journal
---@param checkpoint moonring.Checkpoint
---@return { flops: moonring.ModelFlops, rate: number, seconds: number, causal: number }?
function lines.at_peak(journal, checkpoint)
  local c, gpu = journal.config, trainer.gpu()
  local name = gpu and gpu.name
  local rate = c.peak_tflops and c.peak_tflops * 1e12 or model_flops.peak(name)
  if rate then
    return { flops = model_flops.of(c, checkpoint), rate = rate * journal.mesh:size(), seconds = 0,
      causal = 0 }
  end
  if name then
    journal:say(("the log has no mfu: the peak rate of %s is not known; peak_tflops says it")
      :format(name))
  end
end

--- Adds the time that a step's floating-point operations would take at the peak rate.
---@param journal moonring.Journal
---@param record moonring.StepReport
function lines.add_work(journal, record)
  local at = journal.at_peak
  if not at then return end
  local flops, causal = model_flops.total(at.flops, record.tokens, record.squares)
  at.seconds, at.causal = at.seconds + flops / at.rate, at.causal + causal / at.rate
end

--- Writes a log line and returns it as text. If the disk is full, the line is kept and written
-- together with a later one. This is logged once, and again once all lines are written. On rank 0.
---@param journal moonring.Journal
---@param record table as for Log:write
---@return string
function lines.write(journal, record)
  record.step_seconds = journal.step_seconds
  local at = journal.at_peak
  if at then record.seconds_at_peak, record.causal_seconds_at_peak = at.seconds, at.causal end
  local words, why, line = journal.log:write(record)
  if journal.trackers then journal.trackers:log(line) end
  if (why ~= nil) ~= (journal.waits or false) then
    journal.waits = why ~= nil
    journal:say(why and "the log waits: " .. why .. "; training continues"
      or "the log is written again")
  end
  return words
end

--- Logs a step with the averages since the last line. Collective over all ranks.
---@param journal moonring.Journal
---@param record moonring.StepReport
function lines.log_step(journal, record)
  local loss, means, peak = since_last(journal)
  journal.last_loss = loss or journal.last_loss
  journal.last_reward = means.reward or journal.last_reward
  if not journal.log then return end
  local c = journal.config
  local norm = c.max_grad_norm > 0 and record.grad_norm or nil
  local words = lines.write(journal, { step = record.step, loss = loss, lr = record.lr,
    grad_norm = norm, tokens = journal.tokens, epoch = record.epoch, peak_memory_bytes = peak,
    metrics = means })
  journal.progress:report(record.step, words)
  journal:reached()
  if journal.completions and journal.trackers then
    journal.trackers:text(record.step, "completions", model_card.generated(journal.completions))
  end
  system.tell_progress { event = "step", step = record.step,
    total_steps = journal.counts.total_steps, epoch = record.epoch, loss = loss, lr = record.lr,
    grad_norm = norm, tokens = journal.tokens, metrics = means }
end

--- Bytes of device memory available to a rank; nil if unknown.
---@param mesh moonring.Mesh
---@param device? "cpu" | "cuda"
---@return number?
function lines.memory_limit(mesh, device)
  if device == "cuda" then
    local ok, memory = pcall(model.gpu_memory)
    return ok and memory.total or nil
  end
  local total = machine.host_memory().total
  return total > 0 and total / (machine.local_ranks() or mesh:size()) or nil
end

--- Logs how long the preparation took. On rank 0.
---@param journal moonring.Journal
function lines.say_prepared(journal)
  local times = phases.words(journal.progress)
  if times ~= "" then journal:say("prepared: " .. times) end
end

--- The metrics of an evaluation under their names in the log, and the speed of the evaluation.
---@param result table<string, number>
---@param prefix string "eval_", or "eval_NAME_" if there are several data sets
---@param rows integer
---@param seconds number
---@param batch integer rows per batch
---@return table<string, number>
function lines.evaluated(result, prefix, rows, seconds, batch)
  local named, took = {}, math.max(seconds, 1e-9)
  for name, value in pairs(result) do named[prefix .. name] = value end
  named[prefix .. "runtime"], named[prefix .. "samples_per_second"] = seconds, rows / took
  named[prefix .. "steps_per_second"] = math.ceil(rows / batch) / took
  return named
end

--- Stores the metrics of an evaluation for the model card. Evaluations of several data sets at the
--- same step count as one. An evaluation after the training is the last one, but is not a row of
--- the card's table.
---@param journal moonring.Journal
---@param named table<string, number>
function lines.note_evaluation(journal, named)
  local at = journal.closed and "end" or journal.steps
  if journal.evaluated ~= at then
    journal.evaluated, journal.last_evaluation = at, {}
    if not journal.closed then
      journal.evaluations[#journal.evaluations + 1] = { loss = journal.last_loss,
        epoch = journal.epoch or 0, step = journal.steps, numbers = journal.last_evaluation }
    end
  end
  for name, value in pairs(named) do journal.last_evaluation[name] = value end
end

--- The most important metrics of an evaluation, as text.
---@param result table<string, number>
---@param prefix string
---@return string
function lines.scores_words(result, prefix)
  local words = {}
  for _, name in ipairs { "loss", "loss_per_token", "accuracy", "rewards/accuracies",
    "rewards/margins", "reward", "completions/mean_length", "bleu-4", "rouge-1", "rouge-2",
    "rouge-l" } do
    if result[name] then words[#words + 1] = ("%s%s %.6g"):format(prefix, name, result[name]) end
  end
  return table.concat(words, "  ")
end

return lines
