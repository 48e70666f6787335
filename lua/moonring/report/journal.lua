--- Writes the reports of a training run: in output_dir the log, the plots, data_report.json and the
-- model card; and progress on the terminal. Rank 0 writes. The other ranks only take part in
-- collective operations, such as the maximum of peak memory.
local data_report = require "moonring.report.data_report"
local errors = require "moonring.base.errors"
local lines = require "moonring.report.journal_lines"
local metrics = require "moonring.base.metrics"
local model_card = require "moonring.report.model_card"
local plots = require "moonring.report.plots"
local run_page = require "moonring.report.run_page"
local next_commands = require "moonring.report.next_commands"
local run_state = require "moonring.report.run_state"
local start_lines = require "moonring.report.start_lines"
local system = require "moonring.native.system"
local totals = require "moonring.report.totals"
local tracked_facts = require "moonring.report.tracked_facts"
local trackers = require "moonring.report.trackers"
local trainer = require "moonring.native.trainer"

---@class moonring.journal
local journal = {}

---@class moonring.JournalParts
---@field mesh moonring.Mesh
---@field counts moonring.Counts
---@field checkpoint moonring.Checkpoint the model that is trained
---@field dataset moonring.Dataset the training data
---@field evals? moonring.EvaluatedDataset[] the evaluation data
---@field attention moonring.Attention
---@field memory? moonring.MemoryReport
---@field resumed? table the result of state(), in a resumed run
---@field progress? moonring.Progress on rank 0
---@field tokenizer? moonring.Tokenizer for texts shown by trackers
---@field device? "cpu" | "cuda"
---@field facts? moonring.RunFacts on rank 0

---@class moonring.Journal
---@field config moonring.Configuration
---@field mesh moonring.Mesh
---@field counts moonring.Counts
---@field steps integer steps made
---@field skipped integer steps skipped so far
---@field losses integer steps with a loss
---@field loss_scale? number with fp16: the scale of the next step
---@field tokens integer tokens trained on so far
---@field total_loss number the sum of the steps' losses
---@field since number[] the losses since the last log line
---@field log? moonring.Log on rank 0
---@field progress? moonring.Progress on rank 0
---@field metrics table<string, number[]> totals since the last log line
---@field epoch? number epochs done
---@field at_peak? table on rank 0, if the device's peak rate is known: from journal_lines.at_peak
---@field chosen table<string, true> the strategies that "auto" has chosen so far
---@field dataset moonring.Dataset | moonring.Stream the training data
---@field evals? moonring.EvaluatedDataset[] the evaluation data
---@field evaluated? integer | "end" step of the last evaluation
---@field evaluations moonring.CardEvaluation[] during the training
---@field last_loss? number the loss in the last log line
---@field last_reward? number the mean reward in the last log line that has one
---@field last_evaluation? table<string, number> metrics of the last evaluation, by "eval_" names
---@field closed? boolean the training has ended
---@field outcome? "finished" | "stopped" | "failed" once the run has ended
---@field reason? string why it ended
---@field next_commands? string[] once the run has ended
---@field release? fun() frees this object before the script ends
---@field state_file? moonring.RunState on rank 0
---@field train_results? table<string, number> of train_results.json, once the training has ended
---@field best_so_far? table step, metric, value and folder of the best evaluation
---@field peak_memory? integer bytes, as measured last (totals.lua)
---@field peak_device? integer
---@field warned? boolean whether a stream's warning about cutoff_len was logged
---@field memory? moonring.MemoryReport with the key memory_report
---@field page? moonring.RunPage on rank 0, with report_html
---@field step_times? moonring.StepTimes the times in log lines
---@field completions? table[] completions of the last rollout, with log_completions
---@field told_unrewarded? boolean whether completions without a reward were logged
---@field trackers? moonring.Trackers on rank 0: report_to
---@field tracked? string the folder in output_dir that trackers write to
---@field first_step integer steps made before this process started
---@field first_lines? integer log lines of before, in a resumed run
---@field own_tokens integer tokens since the process started
---@field squares number sum of the squared document lengths since the process started
---@field step_seconds number seconds spent in steps since the process started
---@field memory_limit? number bytes available to a rank
---@field not_written table<string, true> logged reasons why reports could not be written
---@field device_since? { allocated: integer, reserved: integer } since take_device_peaks
---@field device_reserved? integer peak bytes reserved by the GPU's allocator so far, on this rank
---@operator call(moonring.Run): nil
local Journal = {}
Journal.__index = Journal

-- Makes run:log(numbers) work: `log` is a field of the run, and this object is its value.
function Journal.__call(_, run, numbers) return run:log_step(numbers) end

-- Keeps what the terminal shows in output_dir/terminal.log.
local function keep_terminal(self, resumes)
  self:beside(self.progress.keep_log, self.progress, self.config.output_dir .. "/terminal.log",
    resumes)
end

-- Records the end of a run whose script has ended before run:finish(). `why`: the error, or nil.
local function end_early(self, why, code)
  collectgarbage() -- frees the run's model: the error may be a lack of memory
  local state = why and code ~= "CANCELLED" and "failed" or "stopped"
  self:ended(state, why or "the script ended before the run's last step")
  self:end_trackers()
end

--- Opens the log in output_dir. Rank 0 logs what is about to be trained.
---@param config moonring.Configuration
---@param parts moonring.JournalParts
---@return moonring.Journal
function journal.open(config, parts)
  local mesh, counts = parts.mesh, parts.counts
  local self = setmetatable({ config = config, mesh = mesh, counts = counts,
    dataset = parts.dataset, evals = parts.evals, memory = parts.memory, tokens = 0, since = {},
    metrics = {},
    total_loss = 0, steps = 0, skipped = 0, losses = 0, chosen = {}, own_tokens = 0, squares = 0,
    step_seconds = 0, evaluations = {}, not_written = {} }, Journal)
  self:load_state(parts.resumed or {})
  self.first_step = self.steps
  if mesh:rank() ~= 0 then return self end
  self.log = lines.open(config, counts, parts.checkpoint, self, mesh:size())
  self.page = run_page.open(config, parts.resumed ~= nil)
  self.progress = parts.progress or trainer.progress { kind = "plain" }
  keep_terminal(self, parts.resumed ~= nil)
  self.memory_limit = lines.memory_limit(mesh, parts.device)
  self.at_peak = lines.at_peak(self, parts.checkpoint)
  start_lines.tell(self, parts)
  if parts.facts then
    self:beside(function() self.state_file = run_state.open(config.output_dir, parts.facts,
      totals.of(self)) end)
    local held = { self }
    self.release = function() held[1] = nil end -- a script may open many runs
    system.at_end(function(why, code)
      if held[1] then end_early(held[1], why, code) end
    end)
  end
  self.trackers = trackers.open(config, { first_step = self.steps, folder = self.tracked,
    say = function(line) self:say(line) end })
  self.tracked = self.trackers and self.trackers.folder
  if self.trackers and self.steps == 0 then
    self.trackers:begin(function() return tracked_facts.of(config, parts) end)
  end
  return self
end

--- Writes a line that matters only to somebody who looks for it: on the terminal with the key
--- `verbose`, else in terminal.log alone. On rank 0.
---@param text string
function Journal:detail(text)
  if not self.progress then return end
  if self.config.verbose then return self.progress:line(text) end
  self.progress:log_only(text)
end

--- Starts the display of training progress. Call it before the first step.
function Journal:train()
  if not self.progress then return end
  local sp = self.mesh:sp_size()
  self.progress:train { total_steps = self.counts.total_steps, first_step = self.steps,
    first_tokens = self.tokens, memory_limit = self.memory_limit,
    layout = sp > 1 and ("sp %d %s"):format(sp, self.config.sequence_parallel_mode)
      or nil }
end

--- Sends a text from the model to the trackers of report_to.
---@param tag string
---@param text string
function Journal:sampled(tag, text)
  if self.trackers then self.trackers:text(self.steps, tag, text) end
end

--- Logs each attention strategy that "auto" chooses, once. The arguments are the results of
--- Attention:describe for a micro-batch.
---@param said string
---@param chosen? string
function Journal:attention(said, chosen)
  if not self.progress or not chosen or self.chosen[chosen] then return end
  self.chosen[chosen] = true
  self.progress:line("attention: " .. said)
end

--- Logs each mode of linear attention that "auto" chooses, once. The arguments are the results of
--- strategies.describe_mixing.
---@param said? string
---@param chosen? string
function Journal:mixing(said, chosen)
  local key = chosen and "linear " .. chosen
  if not self.progress or not key or self.chosen[key] then return end
  self.chosen[key] = true
  self.progress:line("linear attention: " .. said)
end

--- Writes a line on the terminal, on rank 0. After an error, which is the last line there, it goes
--- to terminal.log alone.
---@param text string
function Journal:say(text)
  if not self.progress then return end
  if self.outcome == "failed" then return self.progress:log_only(text) end
  self.progress:line(text)
end

--- Records a step's numbers. Writes a log line if logging_strategy asks for one; this is collective
--- over all ranks.
---@param record moonring.StepReport
function Journal:step(record)
  self.steps, self.tokens = record.step, self.tokens + record.tokens
  self.skipped, self.loss_scale = record.skipped or 0, record.loss_scale
  self.total_loss = self.total_loss + (record.loss or 0)
  self.losses = self.losses + (record.loss and 1 or 0)
  self.own_tokens, self.squares = self.own_tokens + record.tokens, self.squares + record.squares
  self.step_seconds = self.step_seconds + (record.seconds or 0)
  lines.add_work(self, record)
  self.since[#self.since + 1] = record.loss
  self.epoch = record.epoch
  metrics.add(self.metrics, record.metrics or {})
  local standing = { step = self.steps, epoch = self.epoch, tokens = self.tokens }
  if self.log then self.log:reach(standing) end
  local c = self.config
  local first = record.step == 1 and c.logging_first_step
  if self.progress then -- before the log line, which has the time left after this step
    self.progress:step { step = record.step, epoch = record.epoch, tokens = self.tokens,
      loss = record.loss, lr = record.lr, grad_norm = record.grad_norm }
  end
  if record.due or first then lines.log_step(self, record) end
  if self.progress then data_report.warn_of_cut(self) end
  if self.memory and record.step == 1 then self.memory:tell(self, "after the first step") end
end

--- Logs the result of an evaluation, and returns it under the "eval_" names. Collective over all
--- ranks.
---@param result table<string, number>
---@param rows integer
---@param seconds number
---@param of? string name of the data set, if there are several: the prefix is then "eval_NAME_"
---@return table<string, number>
function Journal:evaluation(result, rows, seconds, of)
  local prefix = of and "eval_" .. of .. "_" or "eval_"
  local named = lines.evaluated(result, prefix, rows, seconds,
    self.config.per_device_eval_batch_size)
  lines.note_evaluation(self, named)
  local peak = totals.measure(self)
  if self.log then
    lines.write(self, { step = self.steps, epoch = self.epoch or 0, tokens = self.tokens,
      metrics = named, peak_memory_bytes = peak })
    self:reached()
    local when = self.closed and "after the training" or ("step %d"):format(self.steps)
    self.progress:line(when .. ": " .. lines.scores_words(result, prefix))
    local event = { event = "evaluation", step = self.steps,
      total_steps = self.counts.total_steps, epoch = self.epoch or 0, metrics = named }
    system.tell_progress(event)
    self.progress:event(system.json_encode(event))
  end
  return named
end

local KEPT = { "tokens", "since", "metrics", "total_loss", "steps", "skipped", "losses",
  "evaluations", "last_loss", "last_evaluation", "evaluated", "epoch", "tracked" }

--- The state that a checkpoint stores, such as sums since the last log line and the evaluations so
--- far.
---@return table
function Journal:state()
  local state = {}
  for _, name in ipairs(KEPT) do state[name] = self[name] end
  state.lines = self.log and self.log:lines()
  return state
end

--- Restores a state() result.
---@param state table
function Journal:load_state(state)
  for _, name in ipairs(KEPT) do
    if state[name] ~= nil then self[name] = state[name] end
  end
  self.first_lines = state.lines
  if state.steps and not state.losses then self.losses = state.steps - self.skipped end
end

--- Records the best checkpoint.
---@param best moonring.BestEvaluation
function Journal:best(best)
  if not self.log then return end
  self.best_so_far = { step = best.step, metric = best.wanted, value = best.metric,
    folder = best.folder:match "[^/]+$" }
  self.log:best { metric = best.metric, step = best.step, checkpoint = best.folder }
end

--- Writes the totals so far into run_state.json.
function Journal:reached()
  if self.state_file then self:beside(self.state_file.reach, self.state_file, totals.of(self)) end
end

--- Records that a checkpoint is complete.
---@param folder string
function Journal:saved(folder)
  self.newest = folder:match "[^/]+$"
  if not self.state_file then return end
  self:beside(self.state_file.saved, self.state_file, self.newest, not self.config.save_only_model)
end

--- Records the end of the run, in run_state.json and report.html. Further calls do nothing. On rank
--- 0.
---@param state "finished" | "stopped" | "failed"
---@param reason string
function Journal:ended(state, reason)
  if not self.log or self.outcome then return end
  self.outcome, self.reason = state, reason
  if self.release then self.release() end
  self.next_commands = next_commands.list(self.config, state, self.newest)
  if self.state_file then
    self:beside(self.state_file.finish, self.state_file, state, reason, totals.of(self),
      self.next_commands)
  end
  self:write_page(true)
end

--- Ends the trackers. Call it after the run has written everything else: they may take long. On
--- rank 0.
function Journal:end_trackers()
  if not self.trackers then return end
  if self.outcome ~= "finished" then
    return self.trackers:stop(self.steps, self.outcome, self.reason)
  end
  system.release_preemption() -- there is nothing left to save
  self.trackers:finish(self.steps, self.train_results or {})
end

--- Writes the metrics of the evaluation after the training: eval_results.json.
---@param named table<string, number>
function Journal:results(named)
  if not self.log then return end
  local with_epoch = { epoch = self.epoch or 0 }
  for name, value in pairs(named) do with_epoch[name] = value end
  self:beside(self.log.results, self.log, "eval", with_epoch)
end

--- Writes the metrics of the answers after the training: predict_results.json.
---@param named table<string, number>
function Journal:predicted(named)
  if self.log then self:beside(self.log.results, self.log, "predict", named) end
end

--- Writes the current trainer_state.json into the folder of a checkpoint.
---@param folder string
function Journal:trainer_state(folder)
  if self.log then self.log:state(folder) end
end

--- Writes the model card, README.md. Call it after the last evaluation.
function Journal:card()
  if not self.log then return end
  self:beside(model_card.write, self)
end

--- Calls f, which writes a report. If the write fails, the run continues, and the error is logged
--- once per file and reason.
---@param f function
---@param ... any its arguments
function Journal:beside(f, ...)
  local ok, why = pcall(f, ...)
  if ok then return end
  if not errors.code(why) then error(why, 0) end -- a bug, not a failed write
  local words = errors.words(why)
  if self.not_written[words] then return end
  self.not_written[words] = true
  self:say("not written: " .. words)
end

--- Logs that a report could not be written, for the reason `why`; does nothing if that is nil.
---@param why? string
function Journal:warn(why)
  if why then self:say(why .. "; training continues") end
end

--- Writes report.html, unless that would take too much of the run's time. On rank 0.
---@param at_end? boolean writes it in any case
function Journal:write_page(at_end)
  if self.page then self:warn(self.page:write(at_end or false)) end
end

--- Ends the reports of the training: writes the result files and, with plot_loss, the plots.
function Journal:close()
  self.closed = true
  if self.memory then self.memory:tell(self, "at the end") end
  if not self.log then return end
  self:beside(function()
    self.train_results = self.log:finish(self.total_loss / math.max(self.losses, 1),
      self.steps * self.counts.examples_per_step)
  end)
  self:beside(data_report.finish, self)
  if self.config.plot_loss then self:beside(plots.draw, self) end
end

--- The peak bytes of the GPU's allocator on this rank since the last call: `allocated` by tensors,
--- and `reserved` in total; nil on a CPU.
---@return { allocated: integer, reserved: integer }?
function Journal:take_device_peaks()
  self:device_peak()
  local since = self.device_since
  self.device_since = nil
  return since
end

--- The peak bytes reserved by the GPU's allocator on this rank; 0 on a CPU.
---@return integer
function Journal:device_peak()
  local mine = trainer.take_device_peaks()
  if not mine then return 0 end
  if self.memory then self.memory:take_device(mine) end
  local since = self.device_since or { allocated = 0, reserved = 0 }
  self.device_since = { allocated = math.max(since.allocated, mine.allocated),
    reserved = math.max(since.reserved, mine.reserved) }
  self.device_reserved = math.max(self.device_reserved or 0, mine.reserved)
  return self.device_reserved
end

--- Ends the reports of a run that a signal ends. Collective over all ranks.
---@param reason string
function Journal:stopped(reason)
  totals.measure(self)
  self:ended("stopped", reason)
end

--- Ends the log after everything else, with the peak of memory. Collective over all ranks.
---@param early? string why the training ended before its last step
function Journal:finish(early)
  local peak = totals.measure(self)
  if not self.log then return end
  self:beside(self.log.finish_log, self.log, { peak_memory_bytes = peak })
  self:ended("finished", ("%s; the model is in %s"):format(early
    or ("all %d steps are done"):format(self.steps), self.config.output_dir))
end

return journal
