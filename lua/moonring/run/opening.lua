--- Opens a run: creates its components from a configuration, in the order of their dependencies,
-- and restores their states from a checkpoint if the run resumes.
local agreement = require "moonring.config.agreement"
local attention = require "moonring.native.attention"
local checkpoints = require "moonring.run.checkpoint.checkpoints"
local checks = require "moonring.run.checks"
local closing = require "moonring.run.closing"
local compute = require "moonring.choices.compute"
local datasets = require "moonring.data.datasets"
local each_node = require "moonring.run.checkpoint.each_node"
local configured_template = require "moonring.data.configured_template"
local expert_ranks = require "moonring.choices.expert_ranks"
local fitting = require "moonring.run.fitting"
local gpu = require "moonring.plan.gpu"
local journal = require "moonring.report.journal"
local layout_records = require "moonring.report.layout_records"
local launch = require "moonring.run.launch"
local memory_check = require "moonring.plan.check"
local memory_report = require "moonring.report.memory_report"
local objective = require "moonring.choices.objective"
local optimizers = require "moonring.choices.optimizers"
local output_folder = require "moonring.run.output_folder"
local custom_pieces = require "moonring.choices.custom_pieces"
local pace = require "moonring.run.pace"
local parameter_status = require "moonring.report.parameter_status"
local phases = require "moonring.report.phases"
local policy = require "moonring.model.policy"
local prefixes = require "moonring.choices.prefixes"
local products = require "moonring.choices.products"
local resume = require "moonring.run.checkpoint.resume"
local resume_changes = require "moonring.run.checkpoint.resume_changes"
local reference_words = require "moonring.run.reference_words"
local rounds = require "moonring.choices.rounds"
local run_facts = require "moonring.report.run_facts"
local run_name = require "moonring.run.run_name"
local sample_answer = require "moonring.run.sample_answer"
local saved_state = require "moonring.run.checkpoint.saved_state"
local strategies = require "moonring.choices.strategies"
local step_times = require "moonring.report.step_times"
local system = require "moonring.native.system"
local times = require "moonring.base.times"
local traces = require "moonring.report.traces"
local trainer = require "moonring.native.trainer"
local training_parts = require "moonring.run.training_parts"
local untrained = require "moonring.run.untrained"
local vocabulary = require "moonring.data.vocabulary"

---@class moonring.opening
local opening = {}

-- Locks output_dir at the first call. The run writes nothing there before.
local function take_folder(run)
  if run.seen == false then return end
  run.lock, run.notes.lock[1] = output_folder.take(run.config, run.mesh, run.seen)
  run.writes, run.apart = each_node.writes(run.config, run.mesh)
  run.seen = false
end

-- Whether the run offloads data to files in output_dir. These are created when the model is loaded.
local function offloads_there(c)
  return c.activation_offload == "disk" and not c.activation_dir
    or c.offload_optimizer == "disk" and not c.offload_dir
end

-- Starts the ranks, chooses the device, and finds the checkpoint to resume from, if any. It does
-- not read the model or the data, and writes nothing.
local function begin(run)
  local c = run.config
  system.outlive_stdout()
  checks.train(c)
  policy.fetch(c)
  datasets.fetch(c)
  launch(c.sequence_parallel_size, compute.ranks(c), c.max_restarts, c.expert_parallel_size)
  run.device = compute.device(c)
  run.notes.determinism = { compute.determinism(c, run.device) }
  run.mesh = compute.mesh(c)
  agreement.check(c, run.mesh)
  run.progress = run.mesh:rank() == 0 and phases.progress(c, run.device) or nil
  run.notes.gpus = gpu.check(c, run.device, run.mesh)
  run.seen = output_folder.look(c, run.mesh)
  if not c.do_train then return end
  run.resumed, run.notes.resume = resume.find(c, run.mesh)
  if run.resumed then run.notes.resume = run.resumed.notes end
  -- The values are recorded now, because loading the model and the data changes some values of c.
  run.remembered = resume_changes.remembered(c)
  run.name, run.shared = run_name.choose(c, run.mesh, run.resumed)
  run.memory = memory_report.start(c, run.mesh)
end

-- Loads the data sets: run.data for training, run.evals for evaluation (nil: none).
local function open_data(run)
  local c, notes = run.config, run.notes.model
  local train, eval, each = phases.run(run.progress, "preparing data", "rows", function(work)
    return datasets.load(c, run.tokenizer,
      { mesh = run.mesh, rows = run.checkpoint:vocab_size(), work = work })
  end)
  if not datasets.kept(c) then
    function run.keep_data() notes[#notes + 1] = datasets.keep(c, train, eval, each) end
  end
  datasets.check_evaluation(c, eval, each)
  if c.eval_strategy == "no" and not c.do_eval and not c.do_predict then
    eval, each = nil, nil -- not used
  end
  run.data, run.evals = train, datasets.listed(c, eval, each)
end

-- Loads the tokenizer, the data, and the model with its trainable parameters.
local function open_model(run)
  local c = run.config
  run.checkpoint, run.notes.model = policy.open(c)
  strategies.check_shifted(c, run.checkpoint:facts())
  prefixes.check_model(c, run.checkpoint:facts())
  run.notes.model[#run.notes.model + 1] = strategies.idle_mixing(c, run.checkpoint:facts())
  run.tokenizer = vocabulary.open(c, run.checkpoint, configured_template.settle)
  open_data(run)
  vocabulary.fit(c, run.checkpoint, run.tokenizer, not c.streaming and run.data, run.evals)
  run.notes.fitting = { fitting.go_on(c, run.resumed) }
  run.notes.memory = memory_check.run(c, { mesh = run.mesh, device = run.device,
    checkpoint = run.checkpoint, dataset = run.data, report = run.memory })
  run.notes.products = { products.settle(c, run.mesh, run.checkpoint, run.resumed) }
  if offloads_there(c) then take_folder(run) end
  run.zero = optimizers.zero(c, run.mesh)
  if run.device == "cpu" and compute.precision(c):find "bf16" then
    run.notes.model[#run.notes.model + 1] = "attention: products of bf16 rows in "
      .. attention.bf16_tiles()
  elseif run.device == "cpu" and c.fp16 then
    run.notes.model[#run.notes.model + 1] = "fp16: the CPU multiplies numbers of fp16 in fp32, and "
      .. "rounds what comes of it"
  end
  if c.zero_stage > 0 then run.notes.model[#run.notes.model + 1] = tostring(run.zero) end
  run.notes.model[#run.notes.model + 1] = expert_ranks.note(run.zero, run.checkpoint)
  run.notes.model[#run.notes.model + 1] = rounds.note(c, run.mesh)
  run.model = phases.run(run.progress, "loading the model", "weights", function(work)
    return policy.learning(c, run.checkpoint, run.zero, run.resumed and run.resumed.folder, work)
  end)
  local kept = run.resumed and run.resumed.parts.attention_kernels
  run.attention = strategies.open(c, run.mesh, run.model, kept)
  if run.attention:kernels() then
    run.notes.attention = { "attention_kernels: " .. run.attention:kernels() }
  end
end

-- Reads the first step of a stream, so that an unreadable row or an empty data set is refused
-- before anything is written.
local function read_first(run)
  if not run.config.streaming or run.rollouts then return end
  local progress = run.progress
  run.log = { say = function(_, line) if progress then progress:line(line) end end }
  if run.resumed then run.resumed:place(run.batches) end
  run.first = { run.batches:next() }
end

-- Starts to write into output_dir and tokenized_path. At this point all checks that could refuse
-- the run have passed.
local function begin_writing(run)
  take_folder(run)
  training_parts.references(run)
  if run.mesh:rank() == 0 and run.keep_data then run.keep_data() end
end

-- Opens the log and the checkpoints, and restores each component's state from a checkpoint.
local function open_report(run)
  local c, mesh, resumed = run.config, run.mesh, run.resumed
  if resumed then -- after the references, which are of the model before training
    saved_state.load_weights(resumed.folder, run.states, run.optimizer, run.rounds)
    if not run.first then resumed:place(run.batches) end
    resumed:bring_log(c, mesh)
  end
  run.log = journal.open(c, { mesh = mesh, counts = run.counts, checkpoint = run.checkpoint,
    dataset = run.data, evals = run.evals, attention = run.attention, memory = run.memory,
    progress = run.progress, tokenizer = run.tokenizer, device = run.device,
    facts = mesh:rank() == 0 and run_facts.of(run, run.objective.needs_reference
      and reference_words.name(c) or nil) or nil,
    resumed = resumed and resumed.parts.journal })
  run.times = times.new(mesh)
  run.engine.times = run.times
  run.log.step_times = step_times.open(c.output_dir, run.times, run.log.steps,
    function(line) run.log:say(line) end)
  run.pace = pace.new(mesh, function(line) run.log:say(line) end)
  local judges = c.load_best_model_at_end or c.metric_for_best_model or c.early_stopping_steps
    or c.save_strategy == "best"
  run.checkpoints = checkpoints.new { dir = c.output_dir, limit = c.save_total_limit, mesh = mesh,
    metric = judges and (c.metric_for_best_model or "loss") or nil,
    greater = c.greater_is_better,
    save = function(folder) return run:write_checkpoint(folder) end,
    turn = function() closing.turn(run) end, apart = run.apart,
    saved = function(folder) run.log:saved(folder) end,
    say = function(line) run.log:say(line) end }
  run:track("journal", run.log)
  run:track("updates", run.updates)
  if run.rounds then run:track("rounds", run.rounds) end
  run:track("checkpoints", run.checkpoints)
  local kernels = strategies.part(run.attention)
  if kernels then run:track("attention_kernels", kernels) end
  run:track("cpu_products", products.part(c))
  if run.loss_scale then run:track("loss_scale", run.loss_scale) end
  if c.auto_find_batch_size then run:track("micro_batches", run.batches:part()) end
  if custom_pieces.of(c, "lr_scheduler_type") and run.schedule:remembers() then
    run:track("schedule", run.schedule)
  end
  if run.objective.state then
    run:track("objective", { state = function() return run.objective.state() end,
      load_state = function(_, state) run.objective.load_state(state) end })
  end
  if resumed and run.checkpoints.best.step then run.log:best(run.checkpoints.best) end
  local name = resumed and resumed.folder:match "[^/]+$"
  if name and system.exists(c.output_dir .. "/" .. name) then run.log:saved(resumed.folder) end
end

local NOTES = { "config", "gpus", "model", "attention", "products", "lock", "determinism",
  "fitting", "memory", "resume" }

-- Subjects of notes about how numbers are computed, which the key `verbose` shows.
local DETAILS = { attention = true, products = true }

--- Creates the components of a run. Collective over all ranks.
---@param run moonring.Run with `config` only, and the custom components of the script
function opening.parts(run)
  run.notes = { config = run.config.notes, lock = {} }
  begin(run)
  if not run.config.do_train then return untrained.open(run) end
  open_model(run)
  training_parts.open(run)
  read_first(run)
  begin_writing(run)
  open_report(run)
  for _, subject in ipairs(NOTES) do
    local say = DETAILS[subject] and run.log.detail or run.log.say
    for _, note in ipairs(run.notes[subject] or {}) do say(run.log, note) end
  end
  local facts = run.checkpoint:facts()
  run.layouts = layout_records.open(run)
  run.engine.on_batch = function(batch)
    if run.layouts then run.layouts:take(batch) end
    local sequence = batch:sequence()
    run.log:attention(run.attention:describe(sequence))
    run.log:mixing(strategies.describe_mixing(run.config, facts, run.model,
      run.attention:layout(sequence)))
  end
  run.trace = traces.open(run)
  if run.config.print_param_status then parameter_status.tell(run) end
  run.sample = sample_answer.sampler(run.config, run.mesh, run.model, run.tokenizer,
    function(when, text) run.log:sampled("sample/" .. when, text) end)
end

--- Writes the run's name into output_dir before its first step. From then on the folder belongs to
--- this run, and checkpoints of other runs in it are not resumed automatically. Further calls do
--- nothing. Collective over all ranks.
---@param run moonring.Run
function opening.sign(run)
  if run.is_signed then return end
  run_name.sign(run.config, run.mesh, run.name, run.shared)
  run.is_signed = true
end

--- Runs once before the first step: prints a sample answer, and evaluates if eval_on_start is set.
--- From then on a signal triggers a save.
---@param run moonring.Run
function opening.start(run)
  if run.config.do_predict then objective.refuse_inside(run.objective, "do_predict") end
  if not run.resumed then run.sample("before", run.model, run.objective) end
  run.mesh:barrier()
  trainer.release_memory() -- frees memory that preparing the data and loading the model used
  system.started()
  run.log:train()
  if run.evals and run.config.eval_on_start and not run.resumed then
    run:evaluate()
    run.log:write_page()
  end
  system.catch_preemption()
end

return opening
