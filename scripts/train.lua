--- moonring train CONFIG.yaml [key=value...]: trains a model as a LLaMA-Factory configuration says, unchanged.
-- Stages pt, sft, rm, dpo and kto; full, LoRA or freeze. Over sequence_parallel_size ranks that share each sequence; with moonring -n RANKS,
-- dp = RANKS / sequence_parallel_size of such groups. Writes the model (or the adapter), trainer_log.jsonl and the other files of a run to output_dir.
local moonring = require "moonring"
local models, run, stages = moonring.models, moonring.run, moonring.stages
local config = moonring.config.command(arg)
moonring.checks.train(config)
moonring.launch(config.sequence_parallel_size, run.ranks(config), config.max_restarts)

local device = run.device(config)
local determinism = run.determinism(config, device)
local mesh = run.mesh(config)
moonring.agreement.check(config, mesh)
local gpus = moonring.gpu.check(config, device, mesh)
local lock, unlocked = moonring.output_folder.take(config, mesh)
local resumed, passed_over = moonring.resume.find(config, mesh)
local asked = moonring.resume.remembered(config) -- before the model and the data settle what it leaves open
local name, before = moonring.resume.begin(config, mesh, resumed)
local memory = moonring.memory_report.start(config, mesh)
local checkpoint, notes = models.open(config)
local tokenizer = moonring.vocabulary.open(config, checkpoint, moonring.configured_template.settle)
local train, eval, each = moonring.datasets.load(config, tokenizer)
notes[#notes + 1] = unlocked
notes[#notes + 1] = mesh:rank() == 0 and moonring.datasets.keep(config, train, eval, each) or nil
moonring.datasets.check_evaluation(config, eval, each)
if config.eval_strategy == "no" and not config.do_eval then eval, each = nil, nil end -- held out, and left alone
local evals = each or eval and { { dataset = eval } }
moonring.vocabulary.fit(config, checkpoint, tokenizer, not config.streaming and train, evals)
local memory_notes = moonring.memory_check.run(config, { mesh = mesh, device = device, checkpoint = checkpoint, dataset = train, report = memory })
local zero = run.zero(config, mesh)
if config.zero_stage > 0 then notes[#notes + 1] = tostring(zero) end
local learner = models.learner(config, checkpoint, zero)
local attention = run.attention(config, mesh, learner)
local counts = run.counts(config, train:size(), mesh:dp_size())
local digest
local function data_digest() -- of all examples: made where a checkpoint wants it
  if not config.streaming then digest = digest or train:digest() end
  return digest
end
local group = run.group(config, mesh:dp_size())
if resumed then resumed:check(data_digest(), counts.examples_per_step, group) end
local objective = stages.objective(config, learner)
local runtime = moonring.runtime.new { mesh = mesh, model = learner, attention = attention, objective = objective,
  group = config.per_device_train_batch_size * mesh:dp_size(), noise = stages.noise(config),
  router = stages.router(config, learner) }
local states = run.states(config, zero, runtime.parameters)
runtime.states = states
local optimizer, schedule = run.optimizer(config, states:parameters(), zero), run.schedule(config, counts.total_steps)
local references = objective.needs_reference and stages.references(config, { checkpoint = checkpoint, learner = learner, attention = attention, mesh = mesh, zero = zero,
  datasets = stages.datasets(train, evals) }) or {}
runtime.reference = references.train
local steps = run.steps(config, train, mesh, counts)
local journal
local function say(line) journal:say(line) end
local updates = moonring.updates.new(config, { runtime = runtime, states = states, optimizer = optimizer, say = say })
if resumed then -- after the references, which are of the model before training
  resumed:load(states, optimizer)
  resumed:place(steps)
  updates:resume(resumed.updates)
  if objective.load_state and resumed.objective then objective.load_state(resumed.objective) end
end
if resumed then resumed:bring_log(config, mesh) end
journal = moonring.journal.open(config, { mesh = mesh, counts = counts, checkpoint = checkpoint, dataset = train, attention = attention, memory = memory, resumed = resumed and resumed.journal })
moonring.resume.sign(config, mesh, name, before)
notes[#notes + 1] = determinism
for _, lines in ipairs { config.notes, gpus, notes, memory_notes or {}, resumed and resumed.notes or passed_over or {} } do
  for _, note in ipairs(lines) do journal:say(note) end
end
runtime.on_batch = function(batch) journal:attention(attention:describe(batch:sequence())) end
local sample = moonring.journal.sampler(config, mesh, learner, tokenizer)

local writes = mesh:rank() == 0
local function save(folder, flush) -- all ranks take part in all of it, whatever fails: they may hold parts of the weights
  local saved, why = pcall(learner.save, learner, folder, { write = writes, flush = flush })
  if objective.save then objective.save(folder, { write = writes, flush = flush }) end
  if not saved then error(why, 0) end
end
local made = resumed and resumed.step or 0 -- steps
local checkpoints
checkpoints = run.checkpoints(config, mesh, function(folder)
  save(folder, false) -- what publishes the checkpoint does
  journal:trainer_state(folder)
  if config.save_only_model then return {} end
  return moonring.resume.write(folder, mesh, { states = states, optimizer = optimizer, steps = steps, state = { run = name, step = made, config = asked, data = data_digest(),
    examples_per_step = counts.examples_per_step, group = group, journal = journal:state(), updates = updates:state(), checkpoints = checkpoints:state(), objective = objective.state and objective.state() } })
end, say)
if resumed then
  checkpoints:resume(resumed.step, resumed.checkpoints, moonring.system.absolute(resumed.folder .. "/.."))
  if checkpoints.best then journal:best(checkpoints.best) end
end

local function evaluate()
  local all = {}
  for _, one in ipairs(evals) do
    local began = moonring.system.clock()
    local result = runtime:evaluate(one.dataset, { batch = config.per_device_eval_batch_size, micro_batch_tokens = run.micro_batch_tokens(config),
      reference = references[stages.eval_name(one)], accuracy = config.compute_accuracy })
    for name, value in pairs(journal:evaluation(result, one.dataset:size(), moonring.system.clock() - began, one.name)) do all[name] = value end
  end
  return all
end

local function end_as(preempted)
  if lock then lock:close() end -- the process ends without the host's closing it
  moonring.system.end_as_preempted(preempted)
end

if not resumed then sample "before" end
mesh:barrier()
moonring.trainer.release_memory() -- what preparing the data and loading the model took
moonring.system.started()
local evaluates, saves = run.due(config, "eval", counts), run.due(config, "save", counts)
if evals and config.eval_on_start and not resumed then evaluate() end
moonring.system.catch_preemption()
local function is_over() return made >= counts.total_steps or checkpoints.stale >= (config.early_stopping_steps or math.huge) end
local pace = moonring.pace.new(mesh, say)
for step, k in moonring.count(steps, made) do
  if is_over() then break end -- it went on from its end, or its data has more steps
  pace:begin()
  local lr = schedule:at(k - 1)
  local update = updates:make(step, k, lr)
  pace:finish()
  made = k
  journal:step { step = k, loss = update.loss, lr = lr, grad_norm = update.norm, tokens = step:tokens(), metrics = update.metrics, skipped = updates.skipped,
    epoch = counts.epoch_after(step:epoch(), step:index()) }
  local is_best = evals and evaluates(k, step) and checkpoints:judge(evaluate(), k)
  if is_best then journal:best(checkpoints.best) end
  checkpoints:poll()
  local preempted = run.preempted(mesh)
  local ends = preempted and preempted ~= "SIGUSR1"
  if saves(k, step) or preempted or (is_best and config.save_strategy == "best") then checkpoints:save(k, ends) end
  if preempted then
    checkpoints:settle()
    local how = config.save_only_model and "the model is saved after step %d; with save_only_model no run can go on from it" or
      "saved after step %d; resume_from_checkpoint: true goes on from there"
    if checkpoints.newest == k then journal:say(preempted .. ": " .. how:format(k)) end
    if ends then end_as(preempted) end
  end
  moonring.trainer.release_memory((moonring.system.clock() - pace.began) / 100) -- where taking it again is a percent of the step at most
  if is_over() then break end
end
moonring.system.catch_preemption(true) -- no further step comes: a signal is answered so
checkpoints:settle()
local no_best = config.load_best_model_at_end and checkpoints.best and checkpoints:best_is_broken()
if no_best then
  journal:say(("the best model is that of step %d, and %s cannot be loaded: %s; the one after the last step is kept"):format(checkpoints.best.step, checkpoints.best.folder, no_best))
elseif config.load_best_model_at_end and checkpoints.best then
  journal:say("the best model is " .. checkpoints.best.folder)
  optimizer:close() -- makes room
  learner = models.reload(config, learner, checkpoints.best.folder, zero)
  objective = stages.objective(config, learner) -- with the value head that was saved beside it
  runtime.model, runtime.objective = learner, objective
end
save(config.output_dir)
sample("after", learner)
journal:close()
if evals and (config.do_eval or config.eval_strategy ~= "no") then
  local preempted = run.preempted(mesh)
  if preempted and preempted ~= "SIGUSR1" then
    journal:say(preempted .. ": the model is whole; the evaluation after the training is left out")
    end_as(preempted)
  end
  moonring.system.release_preemption() -- nothing is left that could be lost
  journal:results(evaluate())
end
journal:card()
mesh:barrier()
