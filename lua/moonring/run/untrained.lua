--- A run that does not train. With do_eval it evaluates the unchanged model on each evaluation data
-- set, with the same metrics as during training; with do_predict it generates answers. It writes
-- the results into output_dir and changes no other file there.
local configured_template = require "moonring.data.configured_template"
local data_report = require "moonring.report.data_report"
local datasets = require "moonring.data.datasets"
local engine = require "moonring.run.engine"
local evaluation_sets = require "moonring.run.evaluation_sets"
local journal_lines = require "moonring.report.journal_lines"
local noise = require "moonring.run.noise"
local optimizers = require "moonring.choices.optimizers"
local output_folder = require "moonring.run.output_folder"
local phases = require "moonring.report.phases"
local policy = require "moonring.model.policy"
local prediction = require "moonring.run.prediction"
local reference_checks = require "moonring.run.reference_checks"
local reference_models = require "moonring.run.reference_models"
local rewards = require "moonring.run.run_rewards"
local rollouts = require "moonring.run.rollouts"
local rollout_settings = require "moonring.choices.rollout_settings"
local router = require "moonring.run.router"
local stages = require "moonring.choices.stages"
local strategies = require "moonring.choices.strategies"
local system = require "moonring.native.system"
local tasks = require "moonring.config.tasks"
local vocabulary = require "moonring.data.vocabulary"

---@class moonring.untrained
local untrained = {}

-- A minimal log in place of moonring.Journal, with the methods `say` and `evaluation`.
local function log_of(c, progress)
  local log = { config = c, progress = progress }
  function log.say(_, text)
    if progress then progress:line(text) end
  end
  function log.evaluation(_, result, rows, seconds, of)
    local prefix = of and "eval_" .. of .. "_" or "eval_"
    log:say(journal_lines.scores_words(result, prefix))
    return journal_lines.evaluated(result, prefix, rows, seconds, c.per_device_eval_batch_size)
  end
  return log
end

-- Creates what an evaluation loss needs: attention, the objective and its references.
local function open_engine(run)
  local c, mesh = run.config, run.mesh
  run.attention = strategies.open(c, mesh, run.model)
  run.objective = stages.objective(c, run.model)
  reference_checks.objective(c, run.objective)
  run.engine = engine.new { mesh = mesh, model = run.model, attention = run.attention,
    objective = run.objective, group = c.per_device_train_batch_size * mesh:dp_size(),
    noise = noise.of(c), router = router.of(c, run.model), shifted = c.shift_attn }
  run.states = optimizers.states(c, run.zero, run.engine.parameters)
  run.engine.states = run.states
  run.references = {}
  if not run.objective.needs_reference then return end
  local sets = {}
  for _, one in ipairs(run.evals) do sets[one.key] = one.dataset end
  run.references = reference_models.open(c, { checkpoint = run.checkpoint, policy = run.model,
    attention = run.attention, mesh = mesh, zero = run.zero, progress = run.progress,
    datasets = sets })
end

-- Whether the evaluation computes a loss or a reward, not only answers.
local function has_engine(c) return c.do_eval and not c.predict_with_generate end

local function open_model(run)
  local c, began = run.config, system.clock()
  run.model = phases.run(run.progress, "loading the model", nil, function(work)
    if not has_engine(c) then return policy.load(c, run.checkpoint, run.zero) end
    return policy.learning(c, run.checkpoint, run.zero, nil, work)
  end)
  run.preparation = system.clock() - began
end

local NOTES = { "config", "gpus", "model", "lock", "determinism" }

--- Loads the evaluation data, and the model with its adapters. Collective over all ranks.
---@param run moonring.Run whose ranks are started
function untrained.open(run)
  local c, mesh, notes = run.config, run.mesh, run.notes
  run.log = log_of(c, run.progress)
  if not tasks.none(c) then
    run.checkpoint, notes.model = policy.open(c)
    strategies.check_shifted(c, run.checkpoint:facts())
    run.tokenizer = vocabulary.open(c, run.checkpoint, configured_template.settle)
    run.evals = phases.run(run.progress, "preparing data", "rows", function(work)
      return datasets.evaluated(c, run.tokenizer,
        { mesh = mesh, rows = run.checkpoint:vocab_size(), work = work })
    end)
    vocabulary.fit(c, run.checkpoint, run.tokenizer, false, run.evals)
    run.lock, notes.lock[1] = output_folder.take(c, mesh, run.seen)
    run.zero = optimizers.zero(c, mesh)
    open_model(run)
    if has_engine(c) then open_engine(run) end
    if has_engine(c) and rollout_settings.wanted(c) then
      run.rewards = rewards.open(run)
      run.rollouts = rollouts.new(run)
    end
  end
  for _, subject in ipairs(NOTES) do
    for _, note in ipairs(notes[subject] or {}) do run.log:say(note) end
  end
  if run.evals and mesh:rank() == 0 then data_report.tell_evaluated(run.log, run.evals) end
end

-- Writes NAME_results.json, and merges its numbers into all_results.json.
local function write_results(dir, name, named)
  local all = {}
  if system.exists(dir .. "/all_results.json") then
    local read, found = pcall(system.json_decode, system.read(dir .. "/all_results.json"))
    if read and type(found) == "table" then all = found end
  end
  for key, value in pairs(named) do all[key] = value end
  system.write(dir .. "/" .. name .. "_results.json", system.json_encode(named, 2) .. "\n")
  system.write(dir .. "/all_results.json", system.json_encode(all, 2) .. "\n")
end

-- Computes the metrics of do_eval. Reuses the answers that do_predict has generated, if any.
local function evaluate(run, predicted)
  local named = {}
  if predicted then
    for name, value in pairs(predicted) do named[name:gsub("^predict", "eval")] = value end
    return named
  end
  named = phases.run(run.progress, "evaluating", "rows", function(work)
    return evaluation_sets.all(run, work)
  end)
  named.eval_model_preparation_time = run.preparation
  return evaluation_sets.with_perplexity(run.config, named)
end

--- Runs do_eval and do_predict. Writes eval_results.json, generated_predictions.jsonl and
--- predict_results.json. Collective over all ranks.
---@param run moonring.Run after `open`
function untrained.finish(run)
  local c, dir = run.config, run.config.output_dir
  system.started()
  local predicted, evaluated
  if c.do_predict then
    predicted = prediction.write(run, run.evals[1].dataset)
    predicted.predict_model_preparation_time = run.preparation
  end
  if c.do_eval then evaluated = evaluate(run, predicted) end
  if run.rewards then run.rewards:close() end
  if run.mesh:rank() == 0 then
    if evaluated then
      write_results(dir, "eval", evaluated)
      run.log:say("evaluated " .. dir .. "/eval_results.json")
    end
    if predicted then write_results(dir, "predict", predicted) end
    local times = phases.words(run.progress)
    if times ~= "" then run.progress:line(times) end
    run.progress:close()
  end
  run.mesh:barrier()
end

return untrained
