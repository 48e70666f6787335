--- What the lines of a training's log hold: of the steps since the last line, of an evaluation.
local counts_of = require "moonring.choices.counts"
local machine = require "moonring.base.machine"
local metrics = require "moonring.base.metrics"
local model_card = require "moonring.report.model_card"
local model_flops = require "moonring.plan.model_flops"
local phases = require "moonring.report.phases"
local model = require "moonring.native.model"
local system = require "moonring.native.system"
local trainer = require "moonring.native.trainer"

---@class moonring.journal_lines
local lines = {}

---@class moonring.StepReport
---@field step integer steps made, from 1
---@field due boolean whether logging_strategy has a line after it
---@field loss? number the whole step's; absent, as grad_norm and metrics, where it was left out
---@field skipped? integer steps left out so far
---@field loss_scale? number with fp16: of the next step
---@field lr number
---@field grad_norm number before clipping
---@field tokens integer of the step
---@field squares number of it: the sum of its documents' T^2
---@field epoch number epochs done
---@field seconds? number that it took
---@field metrics? table<string, number[]> the whole step's: name -> { sum, count }

-- Operations of a forward and a backward pass over a token, as Transformers counts them: 6 for each
-- parameter outside the embedding.
local function flops_per_token(checkpoint)
  local parameters = 0
  for _, part in ipairs(checkpoint:parts()) do
    if part.name ~= "embedding" then parameters = parameters + part.parameters end
  end
  return 6 * parameters
end

-- Transformers' and LLaMA-Factory's rates of tokens in train_results.json, the latter a rank's.
local function token_rates(config, ranks)
  return { train_tokens_per_second = config.include_tokens_per_second and 1 or nil,
    effective_tokens_per_sec = config.include_effective_tokens_per_second and ranks or nil }
end

--- The log in output_dir, from rank 0.
---@param config moonring.Configuration
---@param counts moonring.Counts
---@param checkpoint moonring.Checkpoint
---@param standing { steps: integer, tokens: integer, epoch: number? } where the run goes on from
---@param ranks integer of the run
---@return moonring.Log
function lines.open(config, counts, checkpoint, standing, ranks)
  local function interval(value)
    return counts_of.interval(value or config.logging_steps, counts.total_steps)
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
  }
end

-- What the GPUs' allocator held at the most since the last line, by tensors and in all, of the rank
-- where it is the greatest; nothing on a CPU.
local function device_peaks(journal)
  local mine, mesh = journal:take_device_peaks(), journal.mesh
  if not mine then return {} end
  return { allocated = mesh:max(mine.allocated), reserved = mesh:max(mine.reserved) }
end

-- Means over the steps since the last line, which begin anew: the loss, nil where every step was
-- left out; the metrics with memory's peaks; the process's peak. Peaks are those of the rank where
-- they are the greatest.
local function since_last(journal)
  local mesh = journal.mesh
  local peak, held = mesh:max(trainer.peak_memory()), mesh:max(trainer.held_memory())
  local anonymous = journal.memory and journal.memory:take_peak()
  local device = device_peaks(journal)
  local loss
  for _, each in ipairs(journal.since) do loss = (loss or 0) + each / #journal.since end
  local means = metrics.means(journal.metrics)
  -- LLaMA-Factory's name in this file.
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

--- What a run's steps take at the devices' peak rate, for MFU; nil where that rate is not known,
--- which is said of a GPU.
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

--- Adds a step's work.
---@param journal moonring.Journal
---@param record moonring.StepReport
function lines.add_work(journal, record)
  local at = journal.at_peak
  if not at then return end
  local flops, causal = model_flops.total(at.flops, record.tokens, record.squares)
  at.seconds, at.causal = at.seconds + flops / at.rate, at.causal + causal / at.rate
end

--- A line of the log, in words. Where the disk takes none it waits for the next one, which is said
--- once, and once when all is written. From rank 0.
---@param journal moonring.Journal
---@param record table as Log:write's
---@return string
function lines.write(journal, record)
  local at = journal.at_peak
  if at then record.seconds_at_peak, record.causal_seconds_at_peak = at.seconds, at.causal end
  local words, why, line = journal.log:write(record)
  if journal.trackers then journal.trackers:log(line) end
  if (why ~= nil) ~= (journal.waits or false) then
    journal.waits = why ~= nil
    journal:say(why and "the log waits: " .. why .. "; training goes on"
      or "the log is written again")
  end
  return words
end

--- Logs a step with the means since the last line. Collective over all ranks.
---@param journal moonring.Journal
---@param record moonring.StepReport
function lines.log_step(journal, record)
  local loss, means, peak = since_last(journal)
  journal.last_loss = loss or journal.last_loss
  if not journal.log then return end
  local c = journal.config
  local norm = c.max_grad_norm > 0 and record.grad_norm or nil
  local words = lines.write(journal, { step = record.step, loss = loss, lr = record.lr,
    grad_norm = norm, tokens = journal.tokens, epoch = record.epoch, peak_memory_bytes = peak,
    metrics = means })
  journal.progress:report(record.step, words)
  if journal.completions and journal.trackers then
    journal.trackers:text(record.step, "completions", model_card.generated(journal.completions))
  end
  system.tell_progress { event = "step", step = record.step,
    total_steps = journal.counts.total_steps, epoch = record.epoch, loss = loss, lr = record.lr,
    grad_norm = norm, tokens = journal.tokens, metrics = means }
end

--- What a rank may take of the device that it computes on, in bytes; nil where nobody can say.
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

--- How long what came before the log took. From rank 0.
---@param journal moonring.Journal
function lines.say_prepared(journal)
  local times = phases.words(journal.progress)
  if times ~= "" then journal:say("prepared: " .. times) end
end

--- An evaluation's numbers under their names in the log, and how fast it was.
---@param result table<string, number>
---@param prefix string "eval_", or "eval_NAME_" of several data sets
---@param rows integer
---@param seconds number
---@param batch integer rows of a batch
---@return table<string, number>
function lines.evaluated(result, prefix, rows, seconds, batch)
  local named, took = {}, math.max(seconds, 1e-9)
  for name, value in pairs(result) do named[prefix .. name] = value end
  named[prefix .. "runtime"], named[prefix .. "samples_per_second"] = seconds, rows / took
  named[prefix .. "steps_per_second"] = math.ceil(rows / batch) / took
  return named
end

--- Keeps an evaluation's numbers for the model card: those of several data sets at one step are one
--- evaluation, and one after the training is the last but no row of the card's table.
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

--- Those of an evaluation's numbers that are for people, in words.
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

--- An evaluation's numbers for people, in a line.
---@param result table<string, number>
---@param prefix string
---@param step integer
---@return string
function lines.evaluation_words(result, prefix, step)
  return ("step %d: "):format(step) .. lines.scores_words(result, prefix)
end

return lines
