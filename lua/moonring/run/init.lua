--- A run: the object that a training script works with. Its fields are its components; its
-- methods are below.
--
--     local run = moonring.run.open(config)
--     for step in run:steps() do
--       run:log(run:update(step))
--       run:evaluate_if_due()
--       run:save_if_due()
--     end
--     run:finish()
--
-- A script may replace run:update by code of its own that uses the same components. run:track adds
-- a component of the script to the checkpoints. opening.lua creates the components.
local changed_files = require "moonring.run.checkpoint.changed_files"
local closing = require "moonring.run.closing"
local configuration_of = require "moonring.config.of_table"
local batching = require "moonring.choices.batching"
local errors = require "moonring.base.errors"
local evaluation_sets = require "moonring.run.evaluation_sets"
local opening = require "moonring.run.opening"
local options = require "moonring.base.options"
local output_folder = require "moonring.run.output_folder"
local custom_pieces = require "moonring.choices.custom_pieces"
local placed = require "moonring.config.placed"
local phases = require "moonring.report.phases"
local preemption = require "moonring.run.preemption"
local rollout_settings = require "moonring.choices.rollout_settings"
local saved_state = require "moonring.run.checkpoint.saved_state"
local steps = require "moonring.run.step"
local system = require "moonring.native.system"
local times = require "moonring.base.times"
local trainer = require "moonring.native.trainer"

---@class moonring.run
local run = {}

--- A component with a state that checkpoints store: the result of state() on rank 0, which may
--- consist of numbers, strings, booleans, tensors, and tables of these. When the run resumes,
--- load_state receives it on every rank.
---@class moonring.Part
---@field state fun(self: moonring.Part): any
---@field load_state fun(self: moonring.Part, state: any)

--- A run with its components.
---@class moonring.Run
---@field config moonring.Configuration
---@field mesh moonring.Mesh
---@field tokenizer moonring.Tokenizer
---@field model moonring.Model with its trainable parameters
---@field data moonring.Dataset | moonring.Stream the training data
---@field turns? moonring.BlockTurns if blocks are trained in turns (use_badam)
---@field evals? moonring.EvaluatedDataset[] the evaluation data sets
---@field attention moonring.Attention
---@field objective moonring.Objective
---@field reference? moonring.Reference for the training data, if the objective needs one
---@field engine moonring.Engine computes a step's gradient, and evaluates
---@field states moonring.States trainable weights, their gradients, the optimizer's state
---@field optimizer moonring.Optimizer
---@field shown moonring.ShownWeights switches between the trained and the evaluated weights
---@field rounds? moonring.Rounds with local SGD (local_steps)
---@field schedule moonring.Schedule | moonring.OwnSchedule
---@field loss_scale? moonring.LossScale with fp16
---@field checkpoints moonring.Checkpoints
---@field progress? moonring.Progress on rank 0
---@field device "cpu" | "cuda"
---@field layouts? moonring.LayoutRecords with report_html
---@field log moonring.Journal `run:log(numbers)` logs a step, `run.log:say(line)` a line
---@field counts moonring.Counts
---@field rewards? moonring.Rewards score completions, in stages that generate
---@field rollouts? moonring.Rollouts make the steps, in stages that generate
---@field times? moonring.Times measures the time of each component
---@field trace? moonring.Traces with the key trace
---@field preparation? number seconds of loading the model, in a run that does not train
---@field origins? moonring.Origins the files that its models were read from; on rank 0
---@field step integer the number of the current step, from 1; 0 before the first
---@field waited integer earlier steps that the schedule does not count (fp16)
---@field writes? boolean whether this rank writes the model at the end; set with output_dir's lock
---@field over_early? string why the training ended before its last step
---@field apart? string why no checkpoint can be saved: machines have separate folders
---@field is_signed? boolean whether training_args.yaml names this run
--- `first`: the first step of a stream, which was read ahead; nil once steps() has used it.
---@field first? { [1]: moonring.Step? }
local Run = {}
Run.__index = Run

local OPTIONS = { objective = "any?", optimizer = "any?", schedule = "any?", data = "any?",
  order = "function?", micro_batches = "function?", rollout = "function?",
  rollout_hooks = "table?" }

--- Opens a run: checks its configuration, starts the ranks, creates every component, and resumes
--- from a checkpoint if resume_from_checkpoint asks for it. `given` is the result of
--- config.command, or a table of keys and values. Errors: INVALID_ARGUMENT for every error that can
--- be found before the first step.
---@param given moonring.Configuration | table<string, any>
---@param own? moonring.RunOptions custom components of the script
---@return moonring.Run
function run.open(given, own)
  own = options.check("run.open", own, OPTIONS)
  local c = given.places and given or configuration_of(given)
  custom_pieces.bring(c, { objective = own.objective, optim = own.optimizer,
    lr_scheduler_type = own.schedule, data_source = own.data, rollout = own.rollout,
    rollout_hooks = own.rollout_hooks })
  for _, name in ipairs { "rollout", "rollout_hooks" } do
    if own[name] and not rollout_settings.wanted(c) then
      errors.fail(name, ": stage ", c.stage, " generates no completions; expected grpo, rloo or ",
        "online_dpo")
    end
  end
  if own.micro_batches and c.auto_find_batch_size then
    errors.fail("micro_batches: the script says what goes through a forward; leave ",
      "auto_find_batch_size out")
  end
  if own.order and c.group_by_length then
    errors.fail("order: the script says which examples a step takes; leave group_by_length out")
  end
  local self = setmetatable({ config = c, own = own, parts = {}, step = 0, waited = 0 }, Run)
  placed.call(c, opening.parts, self)
  return self
end

--- Adds a component whose state is stored in checkpoints. If the run has resumed from a checkpoint
--- with a state of this name, the state is restored at once.
---@param name string
---@param part moonring.Part
function Run:track(name, part)
  for _, each in ipairs(self.parts) do
    if each.name == name then errors.fail("track: '", name, "' is there already") end
  end
  self.parts[#self.parts + 1] = { name = name, part = part }
  local resumed = self.resumed
  if not resumed or resumed.parts[name] == nil then return end
  saved_state.load_part(resumed, name, part)
end

--- The digest of the data set; nil for a stream.
---@return string?
function Run:data_digest()
  if self.config.streaming then return nil end
  local order = self.counts.order_digest
  self.digest = self.digest or self.data:digest() .. (order and "-" .. order or "")
  return self.digest
end

local function is_over(self)
  local patience = self.config.early_stopping_steps or math.huge
  return self.step >= self.counts.total_steps or self.checkpoints.best.stale >= patience
end

-- Why a run that is over has not made all of its steps; nil if it has.
local function stopped_early(self)
  if self.step >= self.counts.total_steps then return nil end
  return ("early_stopping_steps ended the training after step %d of %d, as no evaluation since "
    .. "step %d was better"):format(self.step, self.counts.total_steps, self.checkpoints.best.step)
end

--- Returns an iterator over the remaining steps and their numbers: `for step, k in run:steps() do`.
--- Collective over all ranks, as are all methods of a run.
---@return fun(): moonring.Step?, integer?
function Run:steps()
  if not self.batches then return function() end end -- the run does not train
  opening.start(self)
  self.step = self.resumed and self.resumed.step or 0
  self.due = { evaluate = batching.due(self.config, "eval", self.counts),
    save = batching.due(self.config, "save", self.counts),
    log = batching.due(self.config, "logging", self.counts) }
  self.times:begin()
  return function()
    -- Frees cached memory if allocating it again costs at most a percent of the step's time.
    if self.batch then trainer.release_memory((system.clock() - self.pace.began) / 100) end
    local over = is_over(self)
    if self.trace then self.trace:turn(not over and self.step + 1 or nil) end
    if over then -- also if it resumed from its last step
      self.over_early = stopped_early(self)
      return nil
    end
    self.shown:learn() -- a save leaves the averaged weights in place
    self.pace:begin()
    if self.first then
      self.batch, self.first = self.first[1], nil
    else
      self.batch = times.within(self.times, "data", self.batches.next, self.batches)
    end
    self.is_best = false
    if not self.batch then -- a custom source without a restart
      self.over_early = ("the data has ended after step %d of %d, and the training with it"):format(
        self.step, self.counts.total_steps)
      self.log:say(self.over_early)
      return nil
    end
    opening.sign(self)
    self.step = self.step + 1
    self.waited = self.loss_scale and self.loss_scale.skipped or 0
    return self.batch, self.step
  end
end

--- The learning rate of the current step. Steps that fp16 skips do not advance the schedule.
---@return number
function Run:lr() return self.schedule:at(self.step - 1 - self.waited) end

--- Updates the weights by a step: forward, backward, sum over ranks, clip, optimizer.
---@param step moonring.Step
---@return { loss: number?, grad_norm: number?, metrics: table?, lr: number, outcome:
---   moonring.StepOutcome } for run:log
function Run:update(step)
  local turned = self.turns and self.turns:begin(self.step)
  if turned then
    self.optimizer:close()
    self.optimizer, self.updates.optimizer, self.shown.optimizer = turned, turned, turned
    self.log:say(("use_badam: %s is trained from step %d on"):format(self.turns:name(), self.step))
  end
  self.shown:learn() -- a checkpoint has the others
  local lr = self:lr()
  local made = steps.make(self.engine, step, self.step, self.updates, lr)
  while made.outcome == "out_of_memory" do
    step = self.batches:smaller(step, made.why, self.step)
    self.batch = step
    made = steps.make(self.engine, step, self.step, self.updates, lr)
  end
  return { loss = made.loss, grad_norm = made.norm, metrics = made.metrics, lr = lr,
    outcome = made.outcome }
end

--- Logs a step's numbers, which must be the same on every rank: `loss` and `grad_norm` (absent for
--- a skipped step), `lr` (default: the schedule's), and `metrics` (name -> { sum, count }). Any
--- other number is logged as a metric under its name. logging_strategy decides when a line is
--- written. Scripts call this function as run:log(numbers).
---@param numbers table<string, number | table>
function Run:log_step(numbers)
  self.pace:finish()
  local metrics, step = {}, self.batch
  for name, value in pairs(numbers.metrics or {}) do metrics[name] = value end
  if self.rollouts then
    for name, value in pairs(self.rollouts:told()) do metrics[name] = value end
  end
  for name, value in pairs(numbers) do
    local is_own = name == "loss" or name == "grad_norm" or name == "lr" or name == "metrics"
      or name == "outcome"
    if not is_own then metrics[name] = { value, 1 } end
  end
  self.log:step { step = self.step, due = self.due.log(self.step, step), loss = numbers.loss,
    seconds = system.clock() - self.pace.began,
    grad_norm = numbers.grad_norm, lr = numbers.lr or self:lr(), metrics = metrics,
    tokens = step:tokens(), squares = step:squares(), skipped = self.updates.skipped,
    loss_scale = self.loss_scale and self.loss_scale.scale,
    epoch = self.counts.epoch_after(step:epoch(), step:index()) }
  if self.layouts then self.log:warn(self.layouts:finish()) end
end

--- Evaluates on each evaluation data set and logs the result.
---@return table<string, number> numbers by their "eval_" names
function Run:evaluate()
  return times.within(self.times, "evaluation", phases.run, self.progress, "evaluating", "rows",
    function(work)
      if not self.shown then return evaluation_sets.all(self, work) end -- nothing is trained
      return self.shown:with(evaluation_sets.all, self, work)
    end)
end

--- Evaluates if eval_strategy and eval_steps say so, and records whether the result is the best so
--- far.
---@return table<string, number>? numbers nil if it did not evaluate
function Run:evaluate_if_due()
  if not self.evals or not self.due.evaluate(self.step, self.batch) then return nil end
  local numbers = self:evaluate()
  self.is_best = self.checkpoints:judge(numbers, self.step)
  if self.is_best then self.log:best(self.checkpoints.best) end
  self.log:write_page()
  return numbers
end

--- Saves a checkpoint if save_strategy and save_steps say so, or if a signal asks for it. Ends the
--- process if the signal asks for that, too.
function Run:save_if_due()
  self.checkpoints:poll()
  local asked = preemption.asked(self.mesh)
  local best = self.is_best and self.config.save_strategy == "best"
  if self.due.save(self.step, self.batch) or asked or best then
    output_folder.hold(self)
    changed_files.tell(self)
    times.within(self.times, "saving", phases.run, self.progress, "saving a checkpoint", nil,
      function() self.checkpoints:save(self.step, preemption.ends(asked)) end)
  end
  if asked then closing.after_signal(self, asked) end
end

--- Writes the model or its adapter, and the objective's trained parameters, into a folder.
---@param folder string
---@param flush? boolean to the disk at once; default true
function Run:save_model(folder, flush) closing.save_model(self, folder, flush ~= false) end

--- Writes a checkpoint's files: the model, and the states of the run's components. Some optimizers
--- (schedule-free ones) save other weights than those that are trained; the next step puts the
--- trained weights back.
---@param folder string
---@return string[] names of this rank's files
function Run:write_checkpoint(folder)
  opening.sign(self)
  return closing.write_checkpoint(self, folder)
end

--- Ends the run: writes the model to output_dir (the best one with load_best_model_at_end), runs
--- the last evaluation, and writes plots and the model card.
function Run:finish()
  if self.trace then self.trace:turn() end -- if the loop was left early
  if self.batches then
    output_folder.hold(self)
    opening.sign(self)
  end
  closing.finish(self)
end

return run
