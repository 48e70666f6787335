--- Policy gradient with a baseline from the rewards of the same prompt's completions: GRPO (arXiv
-- 2402.03300) and its variants by loss_type, epsilon_high, delta and importance_sampling_level.
-- Formulas and sources: objectives/policy_gradient.h.
local errors = require "moonring.base.errors"
local native = require "moonring.native.objectives"
local rollout_settings = require "moonring.choices.rollout_settings"
local tensor = require "moonring.native.tensor"

-- Dropout is off, so the policy is initially equal to the one that generated the completions.
local grpo = { name = "grpo", reads = "prompts", documents = 1, shares = true, drops = false,
  head = "logits",
  about = "policy gradient on generated completions and their rewards (GRPO and variants)" }

-- A tensor over this rank's tokens, from a list of numbers per completion, one per token. A token's
-- number is at the position of the token before it, which predicts it; other positions are 0.
local function of_tokens(batch, name)
  local values, records = {}, batch:records()
  if #records > 0 and not records[1][name] then return nil end
  for t = 1, batch:sequence():tokens() do values[t] = 0 end
  for i, last in ipairs(batch:ends()) do
    local of = records[i][name]
    for j, value in ipairs(of) do values[last - #of + j - 1] = value end
  end
  return batch:cut(tensor.tensor(values, "fp64"))
end

-- For each completion, whether it contributes to the loss; nil if all do.
local function counted(c, batch)
  if not c.mask_truncated_completions then return nil end
  local list = {}
  for i, each in ipairs(batch:records()) do list[i] = each.stopped end
  return list
end

-- The advantages, one per document of the stream. A shared prefix is a document without targets, so
-- its value has no effect.
local function advantages_of(batch)
  local list = {}
  for i, each in ipairs(batch:records()) do list[i] = each.advantage end
  return tensor.tensor(batch:by_stream(list), "fp64")
end

local function loss_of(c)
  if c.stage == "rloo" then -- rewards already include its KL divergence
    return native.policy_gradient { loss_type = "rloo", epsilon = c.epsilon,
      epsilon_high = c.epsilon_high }
  end
  return native.policy_gradient { loss_type = c.loss_type, beta = rollout_settings.beta(c),
    epsilon = c.epsilon, epsilon_high = c.epsilon_high, delta = c.delta,
    importance_sampling_level = c.importance_sampling_level,
    max_completion_length = c.max_completion_length }
end

--- The objective: its loss is summed over completions, and loss_type chooses its divisor.
---@param c moonring.Configuration
---@param policy moonring.Model
---@return moonring.Objective
function grpo.objective(c, policy)
  local loss, temperature = loss_of(c), rollout_settings.temperature(c)
  return {
    level = "sequence",
    needs_reference = rollout_settings.beta(c) > 0 and "scored" or nil,
    of_targets = true,
    surrogate = true, -- the probabilities before the step are constants
    values = function(batch, hidden)
      return batch:token_log_probs(policy, hidden, { temperature = temperature,
        statistics = { "entropy" } })
    end,
    count = function(batch)
      return loss:count { targets = batch:document_targets(), counted = counted(c, batch) }
    end,
    loss = function(batch, log_probs)
      local high, some = of_tokens(batch, "high"), counted(c, batch)
      return loss:loss(batch.layout, batch.mesh, { log_probs = log_probs,
        old = of_tokens(batch, "old"), sampled = of_tokens(batch, "log_probs"),
        reference = loss:needs_reference() and of_tokens(batch, "reference") or nil,
        targets = batch.targets, advantages = advantages_of(batch),
        counted = some and batch:by_stream(some, false), entropy = batch.statistics.entropy,
        high_entropy = high and high:gt(0.5) })
    end,
  }
end

grpo.rollouts = {}

--- The log-probs and entropies of completions that are needed before the first step; nil: none.
---@param c moonring.Configuration
---@param of moonring.RolloutSettings
---@return moonring.ScoringWish?
function grpo.rollouts.scores(c, of)
  local wish = { old = of.steps > 1 or c.stage == "rloo", reference = of.beta > 0,
    entropy = c.stage == "grpo" and c.top_entropy_quantile < 1 }
  return (wish.old or wish.reference or wish.entropy) and wish or nil
end

--- Makes the examples of a step, one per completion.
---@param list moonring.Completion[]
---@param document fun(completion: moonring.Completion): table
---@return table[] examples
---@return moonring.Completion[] records the completions of the examples
function grpo.rollouts.examples(list, document)
  local examples = {}
  for i, each in ipairs(list) do
    examples[i] = document(each)
    examples[i].family = each.prompt -- share_prefixes computes a group's prompt once
  end
  return examples, list
end

function grpo.compares(c) return rollout_settings.beta(c) > 0 end
function grpo.group() return nil end
function grpo.depends() return {} end

function grpo.check(c)
  rollout_settings.check(c)
  local high = c.epsilon_high or c.epsilon
  if c.stage == "grpo" and c.delta and c.delta <= 1 + high then
    errors.fail("delta: expected more than 1 + epsilon_high (", 1 + high, "), got ", c.delta)
  end
end

return grpo
