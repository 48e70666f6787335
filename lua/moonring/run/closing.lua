--- Saving and ending a run: checkpoints, the final model, plots, the last evaluation, the model
--- card.
local changed_files = require "moonring.run.checkpoint.changed_files"
local evaluation_sets = require "moonring.run.evaluation_sets"
local phases = require "moonring.report.phases"
local policy = require "moonring.model.policy"
local prediction = require "moonring.run.prediction"
local preemption = require "moonring.run.preemption"
local saved_state = require "moonring.run.checkpoint.saved_state"
local stages = require "moonring.choices.stages"
local summary = require "moonring.report.summary"
local system = require "moonring.native.system"
local untrained = require "moonring.run.untrained"

---@class moonring.closing
local closing = {}

-- Saves the trained PiSSA adapter, converted to a plain LoRA adapter for the original base model.
local function save_converted(run)
  run.model:save(run.config.output_dir .. "/pissa_converted", { write = run.mesh:rank() == 0,
    converted = true })
end

local function save_model(run, folder, how, work)
  local saved, why = pcall(run.model.save, run.model, folder,
    { write = how.write, flush = how.flush, work = work })
  if run.objective.save then run.objective.save(folder, how) end
  if not saved then error(why, 0) end
end

local function save(run, folder, how)
  phases.run(run.progress, "saving the model", "weights", function(work)
    run.shown:with(save_model, run, folder, how, work)
  end)
end

--- Writes the model and the objective's trained parameters. All ranks take part in every step, even
--- after an error, since each may have shards of the weights.
---@param run moonring.Run
---@param folder string
---@param flush boolean
function closing.save_model(run, folder, flush)
  save(run, folder, { write = run.mesh:rank() == 0, flush = flush })
end

local function write_checkpoint(run, folder)
  local alone = run.config.save_only_model
  -- Operations in which all ranks take part come before files are written, because an error of one
  -- rank in between would block the others.
  local tensors = not alone and saved_state.take(run.states, run.optimizer) or {}
  closing.save_model(run, folder, false)
  run.log:trainer_state(folder)
  if alone then return {} end
  local states = {}
  for _, each in ipairs(run.parts) do states[each.name] = each.part:state() end
  return saved_state.write(folder, run.mesh, { states = run.states, tensors = tensors,
    rounds = run.rounds, steps = run.batches, parts = states,
    state = { run = run.name, step = run.step, config = run.remembered,
      data = run:data_digest(), examples_per_step = run.counts.examples_per_step,
      group = run.group, origins = run.origins } })
end

--- Switches the weights in the same way as a save does. Switching rounds the weights. So a save
--- that fails must switch too; otherwise a full disk would change the results of the run.
---@param run moonring.Run
function closing.turn(run)
  if not run.rounds then run.shown:keep(function() end) end
end

--- Writes a checkpoint's files. They are flushed to the disk later, when the checkpoint is
--- published.
---@param run moonring.Run
---@param folder string
---@return string[] names of this rank's files
function closing.write_checkpoint(run, folder)
  -- With local_steps the weights of each group are written next to the common ones.
  if run.rounds then return write_checkpoint(run, folder) end
  return run.shown:keep(write_checkpoint, run, folder)
end

-- Ends the process with the exit status of a process that was ended by a signal. `reason` says what
-- is saved.
local function end_as(run, asked, reason)
  if run.progress then run.progress:end_training() end -- later output follows the bar
  run.log:stopped(asked .. ": " .. reason)
  summary.tell(run, "stopped")
  run.log:end_trackers()
  -- The host would close these when the script ends, but the process ends here.
  if run.lock then run.lock:close() end
  if run.progress then run.progress:close() end
  system.end_as_preempted(asked)
end

local SAVED = "saved after step %d; resume_from_checkpoint: true resumes from there"
local MODEL_ALONE = "the model is saved after step %d; with save_only_model no run can resume from "
  .. "it"

--- Finishes the checkpoint that a signal requested, and logs how to resume. If the signal asks the
--- run to end, ends the process.
---@param run moonring.Run
---@param asked string
function closing.after_signal(run, asked)
  run.checkpoints:settle()
  local how = run.config.save_only_model and MODEL_ALONE or SAVED
  local is_saved = run.checkpoints.newest == run.step
  if is_saved then run.log:say(asked .. ": " .. how:format(run.step)) end
  if not preemption.ends(asked) then return end
  end_as(run, asked, is_saved and ("saved after step %d"):format(run.step)
    or ("the run ended after step %d, whose checkpoint was not saved"):format(run.step))
end

local NO_BEST = "the best model is that of step %d, and %s cannot be loaded: %s; the one after the "
  .. "last step is kept"

-- Loads the best model in place of the last one, if load_best_model_at_end is set.
local function take_best(run)
  local best = run.checkpoints.best
  if not run.config.load_best_model_at_end or not best.step then return end
  local why = run.checkpoints:best_is_broken()
  if why then return run.log:say(NO_BEST:format(best.step, best.folder, why)) end
  run.log:say("the best model is " .. best.folder)
  run.shown:rest() -- it is unchanged until the end
  run.optimizer:close() -- frees memory
  run.model = policy.reload(run.config, run.model, best.folder, run.zero)
  -- The new objective has the value head that was saved with the best model.
  run.objective = stages.objective(run.config, run.model)
  run.engine.model, run.engine.objective = run.model, run.objective
end

-- Runs the evaluation after the training. A signal that arrived before it cancels it.
local function evaluate_at_end(run)
  local c = run.config
  if not run.evals or not (c.do_eval or c.eval_strategy ~= "no") then return end
  local asked = preemption.asked(run.mesh)
  if preemption.ends(asked) then
    run.log:say(asked .. ": the model is saved; the evaluation after the training is skipped")
    end_as(run, asked, "the model is saved; the evaluation after the training is skipped")
  end
  system.release_preemption() -- there is nothing left to save
  run.log:results(evaluation_sets.with_perplexity(c, run:evaluate()))
end

-- Generates the answers after the training, with do_predict.
local function predict_at_end(run)
  if not run.config.do_predict then return end
  system.release_preemption()
  local named = run.shown:with(prediction.write, run, run.evals[1].dataset)
  run.log:predicted(named)
end

--- Ends a run after its last step, or evaluates if nothing is trained. Collective over all ranks.
---@param run moonring.Run
function closing.finish(run)
  if not run.batches then return untrained.finish(run) end
  system.catch_preemption(true) -- there is no further step that could handle a signal
  run.checkpoints:settle()
  if run.progress then run.progress:end_training() end -- later output follows the bar
  changed_files.tell(run)
  run.shown:finish()
  take_best(run)
  save(run, run.config.output_dir, { write = run.writes, flush = true })
  if run.config.pissa_convert then run.shown:with(save_converted, run) end
  run.sample("after", run.model, run.objective)
  run.log:close()
  evaluate_at_end(run)
  predict_at_end(run)
  if run.rewards then run.rewards:close() end
  run.log:card()
  run.log:finish(run.over_early)
  summary.tell(run, "finished")
  run.mesh:barrier()
  run.log:end_trackers() -- they may take longer than other ranks would wait
end

return closing
