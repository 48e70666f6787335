--- What of the keys about evaluation can be known to be wrong before anything is loaded.
local config = require "moonring.config"

---@class moonring.evaluation_checks
local evaluation_checks = {}

-- The best checkpoint can be loaded only where each one that is saved was evaluated.
local function best_model(c)
  if c.save_strategy == "best" then return end
  if c.save_strategy ~= c.eval_strategy then
    config.fail("load_best_model_at_end: save_strategy ", c.save_strategy, " and eval_strategy ",
      c.eval_strategy, " must agree")
  end
  if c.eval_strategy ~= "steps" then return end
  local save, every = c.save_steps, c.eval_steps or c.logging_steps
  local times, alike = save / every, (save < 1) == (every < 1)
  if alike and times > 0.5 and math.abs(times - math.floor(times + 0.5)) <= 1e-6 then return end
  config.fail("load_best_model_at_end: save_steps ", save, " must be a multiple of eval_steps ",
    every, alike and "" or ": wanted both as parts of all steps or both as numbers of steps")
end

--- Refuses evaluation without data, and what is measured by it without evaluation.
---@param c moonring.Configuration
function evaluation_checks.check(c)
  local has = c.eval_dataset ~= nil or c.val_size > 0
  if (c.eval_strategy ~= "no" or c.do_eval or c.eval_on_start) and not has then
    config.fail "eval_strategy: nothing to evaluate on; wanted eval_dataset or val_size"
  end
  if c.eval_on_start and c.eval_strategy == "no" then
    config.fail "eval_on_start: wanted an eval_strategy beside it"
  end
  if c.early_stopping_steps and c.eval_strategy == "no" then
    config.fail "early_stopping_steps: wanted an eval_strategy beside it"
  end
  if c.save_strategy == "best" and c.eval_strategy == "no" then
    config.fail "save_strategy: best: wanted an eval_strategy beside it"
  end
  if c.load_best_model_at_end then best_model(c) end
end

return evaluation_checks
