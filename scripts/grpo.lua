--- Learning from rewards: GRPO (arXiv 2402.03300), with rollouts and loss in sight. Stage grpo has
-- them by keys (docs/rollouts.md). The same numbers for any sp, dp and micro-batches: what is drawn
-- depends on the seed and the prompt alone, and the engine divides.
-- moonring grpo model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/grpo", sp = 1, batch = 16, group = 4, steps = 10, lr = 1e-5,
  tokens = 32, epsilon = 0.2, resume = false }

-- What a completion is worth: the share of letters among its characters. Write your own: its second
-- argument is the prompt's row of the data set, by columns.
local function reward(text)
  return select(2, text:gsub("%a", "")) / math.max(#text, 1)
end

-- Completions of each prompt, each with its advantage over the mean of its group.
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

-- The sum over this rank's tokens of -min(ratio A, clip(ratio) A).
local function loss(batch, log_probs)
  local advantages = {}
  for i, each in ipairs(batch:records()) do advantages[i] = each.advantage end
  local a = batch:per_token(advantages)
  local ratio = (log_probs - log_probs:detach()):exp() -- 1: the completions are this policy's own
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
  count = function(batch) return batch:count_targets() end } })

for step in run:steps() do
  run:log(run:update(step)) -- forward, backward, sum over ranks, clip, optimizer
  run:save_if_due()
end
run:finish()
