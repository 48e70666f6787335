--- What a training run tells: the log, the plots, data_report.json and the model card in
-- output_dir, progress on the terminal, a sample answer before and after. Rank 0 writes; the other
-- ranks only take part in what all must (peak memory).
local chat = require "moonring.commands.chat"
local counts_of = require "moonring.run.counts"
local data = require "moonring.data"
local metrics = require "moonring.run.metrics"
local model_card = require "moonring.report.model_card"
local system = require "moonring.native.system"
local configured_template = require "moonring.data.configured_template"
local trainer = require "moonring.native.trainer"

---@class moonring.journal
local journal = {}

---@class moonring.StepReport
---@field step integer steps made, from 1
---@field loss? number the whole step's; absent, as grad_norm and metrics, where it was left out
---@field skipped? integer steps left out so far
---@field lr number
---@field grad_norm number before clipping
---@field tokens integer of the step
---@field epoch number epochs done
---@field metrics? table<string, number[]> the whole step's: name -> { sum, count }

---@class moonring.JournalParts
---@field mesh moonring.Mesh
---@field counts moonring.Counts
---@field checkpoint moonring.Checkpoint what is trained
---@field dataset moonring.Dataset what it learns from
---@field attention moonring.Attention
---@field memory? moonring.MemoryReport
---@field resumed? table what state() gave, of a run that goes on

---@class moonring.Journal
---@field config moonring.Configuration
---@field mesh moonring.Mesh
---@field counts moonring.Counts
---@field steps integer steps made
---@field skipped integer steps left out so far
---@field tokens integer seen so far
---@field total_loss number the sum of the steps' losses
---@field since number[] the losses since the last line of the log
---@field log? moonring.Log on rank 0
---@field progress? moonring.Progress on rank 0
---@field metrics table<string, number[]> totals since the last line of the log
---@field epoch? number epochs done
---@field chosen table<string, true> the strategies that "auto" chose so far
---@field dataset moonring.Dataset | moonring.Stream what is learnt from
---@field evaluated? integer | "end" when the last evaluation was
---@field evaluations moonring.CardEvaluation[] while it trained
---@field last_loss? number of the last line of the log
---@field last_evaluation? table<string, number> its numbers, by their "eval_" names
---@field closed? boolean the training is over
---@field warned? boolean of a stream: that cutoff_len leaves next to nothing is told of
---@field memory? moonring.MemoryReport where memory_report asks for it
---@operator call(moonring.Run): nil
local Journal = {}
Journal.__index = Journal

-- run:log(numbers) of a run whose field `log` this is.
function Journal.__call(_, run, numbers) return run:log_step(numbers) end

-- Operations of a forward and a backward pass over a token, as Transformers counts them: 6 for each
-- parameter outside the embedding.
local function flops_per_token(checkpoint)
  local parameters = 0
  for _, part in ipairs(checkpoint:parts()) do
    if part.name ~= "embedding" then parameters = parameters + part.parameters end
  end
  return 6 * parameters
end

-- What the data set holds, on the terminal and in data_report.json.
local function report(self)
  self.progress:line(self.dataset:report())
  system.write(self.config.output_dir .. "/data_report.json", self.dataset:report_json() .. "\n")
end

-- A stream's report comes after the training, too late for one thing: that is told of once the rows
-- read so far show it.
local function warn_of_cut(self)
  if self.warned or not self.config.streaming then return end
  local warning = self.dataset:report():match "cutoff_len leaves almost nothing to learn: [^\n]+"
  if warning then self.progress:line(warning .. "; so far") end
  self.warned = warning ~= nil
end

--- Opens the log in output_dir, writes training_args.yaml and says what is about to be trained, on
--- rank 0.
---@param config moonring.Configuration
---@param parts moonring.JournalParts
---@return moonring.Journal
function journal.open(config, parts)
  local mesh, counts = parts.mesh, parts.counts
  local self = setmetatable({ config = config, mesh = mesh, counts = counts,
    dataset = parts.dataset, memory = parts.memory, tokens = 0, since = {}, metrics = {},
    total_loss = 0, steps = 0, skipped = 0, chosen = {},
    evaluations = {} }, Journal)
  for name, value in pairs(parts.resumed or {}) do self[name] = value end
  if mesh:rank() ~= 0 then return self end
  local function interval(value)
    return counts_of.interval(value or config.logging_steps, counts.total_steps)
  end
  self.log = trainer.log {
    dir = config.output_dir,
    total_steps = counts.total_steps,
    num_train_epochs = config.num_train_epochs,
    logging_steps = config.logging_steps,
    eval_steps = interval(config.eval_steps),
    save_steps = interval(config.save_steps),
    train_batch_size = config.per_device_train_batch_size,
    flops_per_token = flops_per_token(parts.checkpoint),
    first_step = self.steps,
    first_tokens = self.tokens,
    first_epoch = self.epoch,
  }
  self.progress = trainer.progress { total_steps = counts.total_steps }
  -- A stream's rows are counted as they are read.
  if config.streaming then self.progress:line(tostring(self.dataset)) else report(self) end
  self.progress:line(("%d steps of %d examples; %s; %s"):format(counts.total_steps,
    counts.examples_per_step, tostring(mesh), tostring(parts.attention)))
  return self
end

--- Takes what attention says of a micro-batch, and tells of each strategy that "auto" chooses,
--- once.
---@param said string
function Journal:attention(said)
  local strategy = said:match "^auto chose (.-) for "
  if not self.progress or not strategy or self.chosen[strategy] then return end
  self.chosen[strategy] = true
  self.progress:line("attention: " .. said)
end

--- A line on the terminal, from rank 0.
---@param text string
function Journal:say(text)
  if self.progress then self.progress:line(text) end
end

-- A line of the log, in words. Where the disk takes none it waits for the next one, which is said
-- once, and once when all is written.
local function write(self, record)
  local words, why = self.log:write(record)
  if (why ~= nil) ~= (self.waits or false) then
    self.waits = why ~= nil
    self:say(why and "the log waits: " .. why .. "; training goes on" or "the log is written again")
  end
  return words
end

-- What the GPUs' allocator held at the most since the last line, by tensors and in all, of the rank
-- where it is the greatest; nothing on a CPU.
local function device_peaks(self)
  local mine = trainer.take_device_peaks()
  if not mine then return {} end
  if self.memory then self.memory:take_device(mine) end
  return { allocated = self.mesh:max(mine.allocated), reserved = self.mesh:max(mine.reserved) }
end

--- Takes a step's numbers, and logs where it is time to. Collective over all ranks where it logs.
---@param record moonring.StepReport
function Journal:step(record)
  self.steps, self.tokens, self.skipped = record.step, self.tokens + record.tokens, record.skipped
    or 0
  self.total_loss = self.total_loss + (record.loss or 0)
  self.since[#self.since + 1] = record.loss
  self.epoch = record.epoch
  metrics.add(self.metrics, record.metrics or {})
  local standing = { step = self.steps, epoch = self.epoch, tokens = self.tokens }
  if self.log then self.log:reach(standing) end
  local c = self.config
  local due = record.step % c.logging_steps == 0 or (record.step == 1 and c.logging_first_step)
  if due then
    local peak, held = self.mesh:max(trainer.peak_memory()), self.mesh:max(trainer.held_memory())
    local anonymous = self.memory and self.memory:take_peak()
    local device = device_peaks(self)
    local mean
    for _, loss in ipairs(self.since) do mean = (mean or 0) + loss / #self.since end
    local means = metrics.means(self.metrics)
    -- LLaMA-Factory's name in this file.
    means.accuracy = means.accuracy or means["rewards/accuracies"]
    means.allocator_held_bytes, means.peak_anonymous_bytes = held, anonymous
    means.peak_device_allocated_bytes, means.peak_device_reserved_bytes = device.allocated,
      device.reserved
    means.skipped_steps = self.skipped > 0 and self.skipped or nil
    self.since, self.metrics, self.last_loss = {}, {}, mean or self.last_loss
    if self.log then
      local norm = c.max_grad_norm > 0 and record.grad_norm or nil
      local words = write(self, { step = record.step, loss = mean, lr = record.lr, grad_norm = norm,
        tokens = self.tokens, epoch = record.epoch, peak_memory_bytes = peak, metrics = means })
      if not c.disable_tqdm then self.progress:report(record.step, words) end
      system.tell_progress { event = "step", step = record.step,
        total_steps = self.counts.total_steps, epoch = record.epoch, loss = mean, lr = record.lr,
        grad_norm = norm,
        tokens = self.tokens, metrics = means }
    end
  end
  if self.progress then
    if not c.disable_tqdm then self.progress:step(record.step) end
    warn_of_cut(self)
  end
  if self.memory and record.step == 1 then self.memory:tell(self, "after the first step") end
end

-- Numbers by name, each name behind a prefix.
local function prefixed(result, prefix)
  local named = {}
  for name, value in pairs(result) do named[prefix .. name] = value end
  return named
end

--- Takes what an evaluation gave, logs it (one after the training is only told), and returns it
--- under the "eval_" names.
---@param result table<string, number>
---@param rows integer
---@param seconds number
---@param of? string the name of the data set, of several: "eval_NAME_" stands before its numbers
---@return table<string, number>
function Journal:evaluation(result, rows, seconds, of)
  local prefix = of and "eval_" .. of .. "_" or "eval_"
  local named = prefixed(result, prefix)
  local took = math.max(seconds, 1e-9)
  named[prefix .. "runtime"], named[prefix .. "samples_per_second"] = seconds, rows / took
  named[prefix .. "steps_per_second"] =
    math.ceil(rows / self.config.per_device_eval_batch_size) / took
  local at = self.closed and "end" or self.steps
  if self.evaluated ~= at then -- else another data set's numbers of the same evaluation
    self.evaluated, self.last_evaluation = at, {}
    if not self.closed then
      self.evaluations[#self.evaluations + 1] = { loss = self.last_loss, epoch = self.epoch or 0,
        step = self.steps, numbers = self.last_evaluation }
    end
  end
  for name, value in pairs(named) do self.last_evaluation[name] = value end
  if self.log then
    if not self.closed then
      local epoch = self.epoch or 0
      write(self, { step = self.steps, epoch = epoch, tokens = self.tokens, metrics = named })
    end
    local words = { ("step %d: %sloss %.6g"):format(self.steps, prefix, result.loss) }
    for _, name in ipairs { "loss_per_token", "accuracy", "rewards/accuracies",
      "rewards/margins" } do
      if result[name] then words[#words + 1] = ("%s%s %.6g"):format(prefix, name, result[name]) end
    end
    self.progress:line(table.concat(words, "  "))
    system.tell_progress { event = "evaluation", step = self.steps,
      total_steps = self.counts.total_steps, epoch = self.epoch or 0, metrics = named }
  end
  return named
end

--- What of the journal a checkpoint holds: sums since the last line, the evaluations so far and the
--- like.
---@return table
function Journal:state()
  return { tokens = self.tokens, since = self.since, metrics = self.metrics,
    total_loss = self.total_loss, steps = self.steps, skipped = self.skipped,
    evaluations = self.evaluations, last_loss = self.last_loss,
    last_evaluation = self.last_evaluation, evaluated = self.evaluated, epoch = self.epoch }
end

--- Notes the best checkpoint.
---@param best table { metric, step, folder }
function Journal:best(best)
  if self.log then
    self.log:best { metric = best.metric, step = best.step, checkpoint = best.folder }
  end
end

--- The numbers of the evaluation after the training: eval_results.json.
---@param named table<string, number>
function Journal:results(named)
  if not self.log then return end
  local with_epoch = { epoch = self.epoch or 0 }
  for name, value in pairs(named) do with_epoch[name] = value end
  self.log:results("eval", with_epoch)
end

--- trainer_state.json as of now in the folder of a checkpoint.
---@param folder string
function Journal:trainer_state(folder)
  if self.log then self.log:state(folder) end
end

--- Writes the model card, README.md. After the last evaluation.
function Journal:card()
  if not self.log then return end
  local text = model_card.text(self.config, { dp = self.mesh:dp_size(),
    examples_per_step = self.counts.examples_per_step, report = self.dataset:report(),
    evaluations = self.evaluations,
    last = self.last_evaluation })
  system.write(self.config.output_dir .. "/README.md", text)
end

--- The end of the training: the result files and, with plot_loss, the plots.
function Journal:close()
  self.closed = true
  if self.memory then self.memory:tell(self, "at the end") end
  if not self.log then return end
  local c = self.config
  self.log:finish(self.total_loss / math.max(self.steps - self.skipped, 1),
    self.steps * self.counts.examples_per_step)
  if c.streaming then report(self) end
  self.progress:line("model   " .. c.output_dir)
  self.progress:line("log     " .. c.output_dir .. "/trainer_log.jsonl")
  if not c.plot_loss then return end
  local keys = { "loss", "eval_loss", "rewards/accuracies", "eval_accuracy" }
  for _, name in ipairs(c.eval_on_each_dataset and c.eval_dataset or {}) do
    keys[#keys + 1], keys[#keys + 2] = "eval_" .. name .. "_loss", "eval_" .. name .. "_accuracy"
  end
  for _, key in ipairs(keys) do
    if self.log:has(key) then
      local path = c.output_dir .. "/training_" .. key:gsub("/", "_") .. ".png"
      self.log:plot(key, path, "training " .. key .. " of " .. c.output_dir)
      self.progress:line("plot    " .. path)
    end
  end
end

--- A function that prints the model's likeliest answer to sample_prompt, with its argument
--- ("before") in front; one that does nothing where there is no sample_prompt, and on the ranks
--- above 0.
---@param config moonring.Configuration
---@param mesh moonring.Mesh
---@param model moonring.Model
---@param tokenizer moonring.Tokenizer
---@return fun(when: string, now: moonring.Model?) of another model where one is given
function journal.sampler(config, mesh, model, tokenizer)
  if not config.sample_prompt or (mesh:rank() ~= 0 and config.zero_stage < 3) then
    return function() end
  end
  local template = data.template(configured_template.of(config), tokenizer, config.default_system)
  return function(when, now)
    local answer = chat.new(now or model, tokenizer, template, { max_new_tokens = 64 }):answer(
      config.sample_prompt)
    if mesh:rank() ~= 0 then return end
    print(("%s training  %s\n  %s"):format(when, config.sample_prompt, answer))
    io.flush()
  end
end

return journal
