--- GRPO (arXiv 2402.03300) with rollouts, rewards and loss written out. Stage grpo does the same by
-- keys (docs/rollouts.md). The result is the same for any sp, dp and micro-batches: sampling
-- depends only on the seed and the prompt, and the engine divides the loss by the count of the
-- whole step.
-- moonring grpo model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/grpo", sp = 1, batch = 16, group = 4, steps = 10, lr = 1e-5,
  tokens = 32, epsilon = 0.2, resume = false }

-- The reward of a completion: the fraction of its characters that are letters. Replace it by your
-- own; its second argument has the columns of the prompt's row in the data set.
local function reward(text)
  return select(2, text:gsub("%a", "")) / math.max(#text, 1)
end

-- Completes each prompt. The advantage of a completion is its reward minus the mean of its group.
local function rollout(run, prompts)
  local groups = run.rollouts:complete(prompts)
  for p, group in ipairs(groups) do
    local mean = 0
    for _, each in ipairs(group) do
      each.reward = reward(each.text, prompts[p].columns)
      mean = mean + each.reward / #group
    end
    for _, each in ipairs(group) do each.advantage = each.reward - mean end
  end
  return groups
end

-- The loss: -min(ratio A, clip(ratio) A) summed over this rank's tokens; A is the advantage.
local function loss(batch, log_probs)
  local advantages = {}
  for i, each in ipairs(batch:records()) do advantages[i] = each.advantage end
  local a = batch:per_token(advantages)
  local ratio = (log_probs - log_probs:detach()):exp() -- 1: this policy has just sampled them
  local clipped = ratio:clamp(1 - opt.epsilon, 1 + opt.epsilon)
  local learnt = batch.targets:gt(-1):to "fp64"
  return -((ratio * a):minimum(clipped * a) * learnt):sum()
end

local run = moonring.run.open({
  stage = "grpo", finetuning_type = "full", logging_steps = 1, lr_scheduler_type = "constant",
  model_name_or_path = opt.model, dataset = opt.data, dataset_dir = opt.dir,
  template = opt.template, output_dir = opt.out, overwrite_output_dir = true, save_steps = 2,
  sequence_parallel_size = opt.sp, global_batch_size = opt.batch, num_generations = opt.group,
  max_completion_length = opt.tokens, max_steps = opt.steps, learning_rate = opt.lr,
  resume_from_checkpoint = opt.resume,
}, { rollout = rollout, objective = { level = "token", loss = loss,
  surrogate = true, -- the loss detaches the probabilities before the step
  count = function(batch) return batch:count_targets() end } })

for step in run:steps() do
  run:log(run:update(step)) -- forward, backward, sum over ranks, clip, optimizer
  run:save_if_due()
end
run:finish()
