--- Learning from rewards: GRPO (Shao et al., arXiv:2402.03300) with rollouts and loss in sight, one
-- update a rollout. The same numbers for any sp and dp: draws depend on step, example and answer.
-- moonring scripts/examples/grpo.lua model=DIR data=NAME dir=data sp=2
local moonring = require "moonring"
local opt = moonring.flags { model = moonring.required, data = moonring.required, dir = "data",
  template = "default", out = "runs/grpo", sp = 1, batch = 4, group = 4, steps = 5, lr = 1e-4,
  answer = 16, resume = false }
-- The share of letters among an answer's characters. Write your own.
local function reward(text) return select(2, text:gsub("%a", "")) / math.max(#text, 1) end
local run = moonring.run.open { stage = "sft", finetuning_type = "full", logging_steps = 1,
  lr_scheduler_type = "constant", learning_rate = opt.lr, model_name_or_path = opt.model,
  dataset = opt.data, dataset_dir = opt.dir, template = opt.template, output_dir = opt.out,
  overwrite_output_dir = true, save_steps = 2, sequence_parallel_size = opt.sp,
  global_batch_size = opt.batch, max_steps = opt.steps, resume_from_checkpoint = opt.resume }
local mesh, model, tensor, add = run.mesh, run.model, moonring.tensor, table.insert
-- Adds a prompt's answers to what the step learns from: labels are the answers' ids alone.
local function rollout(prompt, seed, made)
  local rewards = {}
  for i = 1, opt.group do
    local how = { max_new_tokens = opt.answer, temperature = 1, seed = seed * opt.group + i }
    local answer = model:generate(prompt, how)
    local ids, labels = { unpack(prompt) }, {}
    for t = 1, #prompt + #answer do
      ids[t], labels[t] = ids[t] or answer[t - #prompt], answer[t - #prompt] or -100
    end
    add(made.documents, ids)
    add(made.labels, labels)
    rewards[i], made.tokens = reward(run.tokenizer:decode(answer)), made.tokens + #answer
    made.reward = made.reward + rewards[i]
  end
  local r = tensor(rewards, "fp64")
  add(made.advantages, (r - r:mean()) / (r:std() + 1e-4))
end
for step, k in run:steps() do
  local made = { documents = {}, labels = {}, advantages = {}, tokens = 0, reward = 0 }
  for _, micro in ipairs(step:micro_batches()) do
    local sequence, left = micro:sequence(), micro:sequence():ids()
    for d, length in ipairs(sequence:lengths()) do
      rollout(left[{ { 0, sequence:prompts()[d] } }]:tolist(), k * 1e6 + micro:examples()[d], made)
      left = left[{ { length } }]
    end
  end
  local tokens, answers = mesh:sum_dp(made.tokens), mesh:sum_dp(#made.documents)
  local loss = #made.documents == 0 and 0 or moonring.scope(function()
    local all = moonring.comm.sequence { documents = made.documents, labels = made.labels }
    local ids, positions, targets, plan, layout = run.attention:cut(all) -- this rank's share
    local each = moonring.cat(made.advantages):repeat_interleave(tensor(all:lengths(), "int64"))
    local advantages = layout:cut(each, mesh:sp_rank())
    local log_probs = moonring.objectives.log_prob(model:forward(ids, positions, plan),
      model:head(), targets)
    local share = -((log_probs - log_probs:detach()):exp() * advantages):sum() / tokens
    run.updates:backward(share, log_probs)
    return share:item()
  end)
  local norm = run.updates:apply(run:lr()) -- summed over ranks, clipped
  local rewards = mesh:sum(mesh:sp_rank() == 0 and made.reward or 0)
  run:log { loss = mesh:sum(loss), grad_norm = norm, reward = rewards / answers }
  run:save_if_due()
end
run:finish()
