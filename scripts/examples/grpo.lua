--- Learning from rewards: GRPO (Shao et al., arXiv:2402.03300) with rollouts and loss in sight, one
-- update a rollout. A draw depends on step, example and place in the group: so no sp or dp matters.
-- moonring scripts/examples/grpo.lua model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/grpo", sp = 1, batch = 4, group = 4, steps = 5, lr = 1e-4,
  answer = 16, resume = false }

-- The share of letters among an answer's characters. Write your own.
local function reward(text) return select(2, text:gsub("%a", "")) / math.max(#text, 1) end

local run = moonring.run.open { stage = "sft", finetuning_type = "full", disable_tqdm = true,
  lr_scheduler_type = "constant", learning_rate = opt.lr, model_name_or_path = opt.model,
  dataset = opt.data, dataset_dir = opt.dir, template = opt.template, output_dir = opt.out,
  overwrite_output_dir = true, save_steps = 2, sequence_parallel_size = opt.sp, logging_steps = 1,
  global_batch_size = opt.batch, max_steps = opt.steps, resume_from_checkpoint = opt.resume }
local mesh, model, tensor = run.mesh, run.model, moonring.tensor

-- Adds a prompt's answers to what the step learns from: labels are the answers' ids alone.
local function rollout(prompt, seed, made)
  local rewards = {}
  for i = 1, opt.group do
    local answer = model:generate(prompt, { max_new_tokens = opt.answer, temperature = 1,
      seed = seed * opt.group + i })
    rewards[i] = reward(run.tokenizer:decode(answer))
    local ids, labels = {}, {}
    for t, id in ipairs(prompt) do ids[t], labels[t] = id, -100 end
    for _, id in ipairs(answer) do ids[#ids + 1], labels[#labels + 1] = id, id end
    table.insert(made.documents, ids)
    table.insert(made.labels, labels)
    made.tokens, made.reward = made.tokens + #answer, made.reward + rewards[i]
  end
  local r = tensor(rewards, "fp64")
  table.insert(made.advantages, (r - r:mean()) / (r:std() + 1e-4))
end

for step, k in run:steps() do
  local made = { documents = {}, labels = {}, advantages = {}, tokens = 0, reward = 0 }
  for _, micro in ipairs(step:micro_batches()) do
    local sequence, first = micro:sequence(), 0
    for d, length in ipairs(sequence:lengths()) do
      local prompt = sequence:ids():narrow(0, first, sequence:prompts()[d]):tolist()
      rollout(prompt, k * 1e6 + micro:examples()[d], made)
      first = first + length
    end
  end
  local tokens, answers = mesh:sum_dp(made.tokens), mesh:sum_dp(#made.documents)
  local loss = #made.documents == 0 and 0 or moonring.scope(function()
    local all = moonring.comm.sequence { documents = made.documents, labels = made.labels }
    local ids, positions, targets, plan, layout = run.attention:cut(all) -- this rank's share
    local advantages = layout:cut(moonring.cat(made.advantages):repeat_interleave(
      tensor(all:lengths(), "int64")), mesh:sp_rank())
    local log_probs = moonring.objectives.log_prob(model:forward(ids, positions, plan),
      model:head(), targets)
    local ratio = (log_probs - log_probs:detach()):exp() -- 1, with the gradient of the log-probs
    local share = -(ratio * advantages):sum() / tokens
    return share:backward(log_probs) or share:item()
  end)
  local norm = run.updates:apply(run.schedule:at(k - 1)) -- summed over ranks, clipped
  local mean = mesh:sum(mesh:sp_rank() == 0 and made.reward or 0) / answers
  run:log { loss = mesh:sum(loss), grad_norm = norm, reward = mean }
  if mesh:rank() == 0 then print(("step %d  reward %.4f  grad_norm %.5f"):format(k, mean, norm)) end
  run:save_if_due()
end
run:finish()
