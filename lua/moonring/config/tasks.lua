--- What a run does: do_train, do_eval, do_predict. As LLaMA-Factory, but that a configuration
-- without any of them trains.

---@class moonring.tasks
local tasks = {}

local TRAINS = "do_train, do_eval and do_predict are all absent: the run trains, as if it said "
  .. "do_train: true"
local NOTHING = "nothing is done: do_train is false, and neither do_eval nor do_predict is true"
local IDLE = "%s: no effect: nothing is trained (do_train is %s)"

-- Keys of a training alone that somebody might expect to act.
local OF_TRAINING = { "resume_from_checkpoint", "overwrite_output_dir", "load_best_model_at_end",
  "precompute_ref_log_probs" }

local function note(c, line) c.notes[#c.notes + 1] = line end

--- Settles the three keys. do_train is what it was given as; where it is absent, true unless
--- do_eval or do_predict is. Where nothing is trained, do_eval is true with an eval_strategy, as in
--- the Hugging Face Trainer. c.notes says what is not as written.
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

--- Whether a run does nothing at all.
---@param c moonring.Configuration
---@return boolean
function tasks.none(c) return not (c.do_train or c.do_eval or c.do_predict) end

return tasks
