--- The tasks of a run: do_train, do_eval and do_predict, as in LLaMA-Factory. Unlike in
--- LLaMA-Factory, a configuration that sets none of the three trains.

---@class moonring.tasks
local tasks = {}

local TRAINS = "do_train, do_eval and do_predict are all absent: the run trains, as with "
  .. "do_train: true"
local NOTHING = "nothing is done: do_train is false, and neither do_eval nor do_predict is true"
local IDLE = "%s: no effect: nothing is trained (do_train is %s)"

-- Keys that have an effect only in training, although a user might expect one in other runs.
local OF_TRAINING = { "resume_from_checkpoint", "overwrite_output_dir", "load_best_model_at_end",
  "precompute_ref_log_probs" }

local function note(c, line) c.notes[#c.notes + 1] = line end

--- Resolves do_train, do_eval and do_predict. An absent do_train becomes true, unless do_eval or
--- do_predict is true. In a run that does not train, do_eval becomes true if there is an
--- eval_strategy, as in the Hugging Face Trainer. Adds notes about changes to c.notes.
---@param c moonring.Configuration
function tasks.settle(c)
  if c.given.do_train == nil and not c.do_train then
    c.do_train = not c.do_eval and not c.do_predict
    if c.do_train and c.path then note(c, TRAINS) end
  end
  if c.do_train then return end
  c.do_eval = c.do_eval or c.eval_strategy ~= "no"
  if not c.do_eval and not c.do_predict then return note(c, NOTHING) end
  for _, key in ipairs(OF_TRAINING) do
    if c[key] then note(c, IDLE:format(key, c.given.do_train == nil and "absent" or "false")) end
  end
  c.precompute_ref_log_probs = false
end

--- Whether a run has no task.
---@param c moonring.Configuration
---@return boolean
function tasks.none(c) return not (c.do_train or c.do_eval or c.do_predict) end

return tasks
