--- Checks of the evaluation keys before anything is loaded.
local config = require "moonring.config"
local datasets = require "moonring.data.datasets"

---@class moonring.evaluation_checks
local evaluation_checks = {}

-- Checks load_best_model_at_end: the best checkpoint is known only if every checkpoint was
-- evaluated, so save_strategy and eval_strategy must agree.
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
    every, alike and "" or ": expected both as parts of all steps or both as numbers of steps")
end

-- Refuses keys that do not work together with predict_with_generate, in LLaMA-Factory or in
-- Moonring.
local function generation(c)
  if c.tokenized_path then
    config.fail("predict_with_generate: tokenized_path holds examples to train on, not prompts to "
      .. "answer; leave one of them out")
  end
  if c.compute_accuracy then
    config.fail "predict_with_generate and compute_accuracy exclude one another"
  end
  for _, name in ipairs { "eval_num_beams", "generation_num_beams" } do
    if (c[name] or 1) > 1 then config.fail("not supported yet: ", name, ": ", c[name]) end
  end
  if c.max_new_tokens < 1 then
    config.fail("max_new_tokens: expected at least 1, got ", c.max_new_tokens)
  end
  if c.do_sample ~= false and c.temperature <= 0 then
    config.fail("temperature: expected more than 0, got ", c.temperature,
      "; do_sample: false takes the likeliest token")
  end
  local judges = c.load_best_model_at_end or c.early_stopping_steps or c.save_strategy == "best"
  local metric = c.metric_for_best_model or judges and "loss"
  if metric and metric:find "loss$" then
    config.fail("metric_for_best_model: with predict_with_generate there is no ", metric,
      "; expected bleu-4, rouge-1, rouge-2 or rouge-l")
  end
end

local function prediction(c)
  if not c.predict_with_generate then
    config.fail "do_predict: expected predict_with_generate: true beside it"
  end
  if c.eval_on_each_dataset then
    config.fail("do_predict: generated_predictions.jsonl is of one data set: leave "
      .. "eval_on_each_dataset out")
  end
end

--- Refuses an evaluation without data, and keys that need an evaluation in a run without one.
---@param c moonring.Configuration
function evaluation_checks.check(c)
  local has = c.eval_dataset ~= nil or c.val_size > 0
    or datasets.kept(c) -- its splits are checked when it is read
  if c.do_predict then prediction(c) end
  if c.predict_with_generate then generation(c) end
  if (c.do_predict or c.predict_with_generate) and not has then
    config.fail((c.do_predict and "do_predict" or "predict_with_generate"),
      ": nothing to answer; expected eval_dataset or val_size")
  end
  if (c.eval_strategy ~= "no" or c.do_eval or c.eval_on_start) and not has then
    local key = c.eval_strategy == "no" and c.do_eval and "do_eval" or "eval_strategy"
    config.fail(key, ": nothing to evaluate on; expected eval_dataset or val_size")
  end
  if not c.do_train then return end
  if c.eval_on_start and c.eval_strategy == "no" then
    config.fail "eval_on_start: expected an eval_strategy beside it"
  end
  if c.early_stopping_steps and c.eval_strategy == "no" then
    config.fail "early_stopping_steps: expected an eval_strategy beside it"
  end
  if c.save_strategy == "best" and c.eval_strategy == "no" then
    config.fail "save_strategy: best: expected an eval_strategy beside it"
  end
  if c.load_best_model_at_end then best_model(c) end
end

return evaluation_checks
