--- Settings of rollouts: sizes and sampling, with the stage's defaults for absent keys.
local errors = require "moonring.base.errors"
local custom_pieces = require "moonring.choices.custom_pieces"
local rollout_hooks = require "moonring.choices.rollout_hooks"
local specs = require "moonring.choices.reward_specs"

---@class moonring.rollout_settings
local settings = {}

---@class moonring.RolloutSettings
---@field generations integer completions per prompt
---@field completions integer completions per optimizer step, over all dp ranks
---@field prompts integer per rollout
---@field shares integer disjoint sets of completions, one per step, that a rollout is split into
---@field steps integer optimizer steps per rollout: shares x num_iterations
---@field beta number
---@field sampling moonring.RolloutOptions

-- Defaults of each stage, as in TRL 0.24.
local DEFAULTS = {
  grpo = { generations = 8, beta = 0, temperature = 1 },
  rloo = { generations = 2, beta = 0.05, temperature = 1 },
  online_dpo = { generations = 2, beta = 0.1, temperature = 0.9 },
}

-- The value of a key if the user set it; otherwise `otherwise`, not the general default of the key.
local function given(c, name, otherwise)
  if c.given[name] == nil then return otherwise end
  return c[name]
end

--- Whether a configuration's stage trains on rollouts.
---@param c moonring.Configuration
---@return boolean
function settings.wanted(c) return DEFAULTS[c.stage] ~= nil end

--- The weight of the KL divergence from the reference: `beta`, or the stage's default.
---@param c moonring.Configuration
---@return number
function settings.beta(c) return c.beta or DEFAULTS[c.stage].beta end

--- The temperature that divides logits, in sampling and in training.
---@param c moonring.Configuration
---@return number
function settings.temperature(c)
  return given(c, "temperature", DEFAULTS[c.stage].temperature)
end

--- Maximum tokens of a prompt, and of a prompt with its completion.
---@param c moonring.Configuration
---@return integer prompt
---@return integer whole
function settings.longest(c)
  local prompt = c.max_prompt_length or c.cutoff_len
  return prompt, prompt + c.max_completion_length
end

local UNEVEN = "num_generations: expected a divisor of the completions of %s "
  .. "(per_device_train_batch_size x %s x dp = %d), got %d"

--- Refuses settings that do not work with rollouts.
---@param c moonring.Configuration
function settings.check(c)
  rollout_hooks.of(c)
  if custom_pieces.of(c, "rollout") then
    if c.reward_funcs or c.reward_weights or c.dynamic_sampling then
      errors.fail("reward_funcs, reward_weights and dynamic_sampling: the script passes a custom ",
        "rollout, which decides the advantages of completions")
    end
  elseif not c.reward_funcs or c.reward_funcs == "" then
    errors.fail("reward_funcs: expected a Lua file of functions, or the name of a built-in one, ",
      "to judge completions by")
  else
    specs.read(c.reward_funcs)
  end
  for _, name in ipairs { "streaming", "tokenized_path", "packing", "neat_packing",
    "precompute_ref_log_probs", "auto_find_batch_size", "local_steps" } do
    local value = c[name]
    if value and value ~= 1 then
      errors.fail(name, ": not with stage ", c.stage, ", whose examples are generated")
    end
  end
  local judges = c.load_best_model_at_end or c.early_stopping_steps or c.save_strategy == "best"
  local metric = c.metric_for_best_model or judges and "loss"
  if metric and metric:find "loss$" then
    errors.fail("metric_for_best_model: an evaluation of stage ", c.stage, " gives rewards and no ",
      metric, "; expected reward (with greater_is_better: true) or rewards/NAME/mean")
  end
  if not (settings.temperature(c) > 0) then
    errors.fail("temperature: expected more than 0, got ", c.temperature,
      ": completions of a prompt are compared")
  end
end

--- The settings of a run. Errors: INVALID_ARGUMENT where sizes do not divide one another.
---@param c moonring.Configuration
---@param dp integer `mesh:dp_size()`
---@return moonring.RolloutSettings
function settings.of(c, dp)
  local generations = c.num_generations or DEFAULTS[c.stage].generations
  local accumulated = c.gradient_accumulation_steps
  local batches = c.steps_per_generation or accumulated
  if batches % accumulated ~= 0 then
    errors.fail("steps_per_generation: expected a multiple of gradient_accumulation_steps (",
      accumulated, "), got ", batches)
  end
  local device_batch = c.per_device_train_batch_size * dp
  if c.global_batch_size then device_batch = c.global_batch_size / accumulated end
  local all = device_batch * batches
  if all % generations ~= 0 then
    errors.fail(UNEVEN:format("a rollout", c.steps_per_generation and "steps_per_generation"
      or "gradient_accumulation_steps", all, generations))
  end
  local shares = batches / accumulated
  if shares > 1 and all / generations % shares ~= 0 then
    errors.fail(UNEVEN:format("a step", "gradient_accumulation_steps", all / shares, generations))
  end
  return { generations = generations, completions = all / shares, prompts = all / generations,
    shares = shares, steps = shares * c.num_iterations, beta = settings.beta(c),
    sampling = { answers = generations, max_new_tokens = c.max_completion_length,
      temperature = settings.temperature(c), top_p = given(c, "top_p", 1),
      top_k = given(c, "top_k", 0), min_p = c.min_p, repetition_penalty = c.repetition_penalty,
      seed = c.seed, sequences = c.rollout_sequences } }
end

return settings
